/* SPDX-License-Identifier: BSD-3-Clause */
/* What control groups leave of a host, in both versions of them, as files say that are not this host's. */
#include "unit.h"

#include "base/host.h"
#include "base/options.h"
#include "groups.h"

#define MEMORY(rest) "/sys/fs/cgroup/memory/" rest
#define CPU(rest) "/sys/fs/cgroup/cpu,cpuacct/" rest
#define CPUSET(rest) "/sys/fs/cgroup/cpuset/" rest
#define SECOND(rest) "/sys/fs/cgroup/" rest

enum { FILES_MAX = 8 };

long __real_sysconf(int name);
long __wrap_sysconf(int name);

long __wrap_sysconf(int name)
{
	return name == _SC_NPROCESSORS_ONLN ? 64 : __real_sysconf(name);
}

static const char first[] =
	"4:memory:/docker/a\n3:cpuset:/docker/a\n2:cpu,cpuacct:/docker/a\n1:name=systemd:/\n0::/\n";
static const char second[] = "1:cpus:/else\n0::/job/step\n";

/* Each group bounds all that are below it; of a container perhaps the topmost alone is seen. */
static void memory__of_both_versions(void **state)
{
	static const struct {
		struct group groups[FILES_MAX];
		uint64_t bytes; /* 0: all that there is */
	} cases[] = {
		{{{"/proc/self/cgroup", second}, {SECOND("job/memory.max"), "4194304\n"},
		  {SECOND("job/step/memory.max"), "8388608\n"}}, 4 << 20},
		{{{"/proc/self/cgroup", second}, {SECOND("job/step/memory.max"), "max\n"},
		  {MEMORY("memory.limit_in_bytes"), "4096\n"}}, 0},
		{{{"/proc/self/cgroup", first}, {MEMORY("docker/a/memory.limit_in_bytes"), "4194304\n"},
		  {MEMORY("docker/memory.limit_in_bytes"), "9223372036854771712\n"}}, 4 << 20},
		{{{"/proc/self/cgroup", first}, {MEMORY("memory.limit_in_bytes"), "2097152\n"}}, 2 << 20},
		{{{"/proc/self/cgroup", first}, {MEMORY("docker/a/memory.limit_in_bytes"), "9223372036854771712\n"}},
		 0},
		{{{"/proc/self/cgroup", "nonsense\n\n:::\n4:memory\n"}}, 0},
		{{{NULL, NULL}}, 0},
	};
	uint64_t all = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)getpagesize();

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		groups = cases[i].groups;
		assert_int_equal(host_memory(), cases[i].bytes ? cases[i].bytes : all);
		groups = NULL;
	}
}

/* Those that are in the set, and no more than their time is enough for. */
static void processors__of_both_versions(void **state)
{
	static const struct {
		struct group groups[FILES_MAX];
		unsigned processors;
	} cases[] = {
		{{{"/proc/self/cgroup", second}, {SECOND("job/cpuset.cpus.effective"), "0-3,7,9-10\n"},
		  {SECOND("job/step/cpu.max"), "max 100000\n"}}, 7},
		{{{"/proc/self/cgroup", second}, {SECOND("job/cpu.max"), "150000 100000\n"},
		  {SECOND("job/step/cpuset.cpus.effective"), "0-63\n"}}, 2},
		{{{"/proc/self/cgroup", second}, {SECOND("job/step/cpu.max"), "20000 100000\n"}}, 1},
		{{{"/proc/self/cgroup", second}, {SECOND("job/step/cpuset.cpus.effective"), "0-127\n"},
		  {SECOND("job/step/cpu.max"), "0 0\n"}}, 64},
		{{{"/proc/self/cgroup", first}, {CPUSET("docker/a/cpuset.cpus"), "5\n"},
		  {CPUSET("cpuset.cpus"), "0-63\n"}}, 1},
		{{{"/proc/self/cgroup", first}, {CPU("docker/a/cpu.cfs_quota_us"), "400000\n"},
		  {CPU("docker/a/cpu.cfs_period_us"), "100000\n"}}, 4},
		{{{"/proc/self/cgroup", first}, {CPU("cpu.cfs_quota_us"), "-1\n"},
		  {CPU("cpu.cfs_period_us"), "100000\n"}, {CPUSET("docker/a/cpuset.cpus"), "\n"}}, 64},
		{{{NULL, NULL}}, 64},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		groups = cases[i].groups;
		assert_int_equal(host_processors(), cases[i].processors);
		groups = NULL;
	}
}

/* Ranks share cores where there are more of them than that. */
static void processors__of_a_job(void **state)
{
	static const struct group container[] = {{"/proc/self/cgroup", second},
						{SECOND("job/cpu.max"), "200000 100000\n"},
						{NULL, NULL}};
	static const struct group none[] = {{NULL, NULL}};
	static const char *const two[] = {"local_ranks=2", NULL}, *const three[] = {"local_ranks=3", NULL};
	struct options options;

	(void)state;
	groups = none;
	assert_int_equal(options_defaults(&options, three), 0);
	assert_false(host_oversubscribed(options.local_ranks));
	groups = container;
	assert_true(host_oversubscribed(options.local_ranks));
	assert_int_equal(options_defaults(&options, two), 0);
	assert_false(host_oversubscribed(options.local_ranks));
	groups = NULL;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory__of_both_versions),
		cmocka_unit_test(processors__of_both_versions),
		cmocka_unit_test(processors__of_a_job),
	};

	return cmocka_run_group_tests_name("host", tests, NULL, NULL);
}
