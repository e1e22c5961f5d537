/* SPDX-License-Identifier: BSD-3-Clause */
#include "endpoint/capability.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/host.h"
#include "memory/driver.h"
#include "thole.h"

/* ---- Capabilities: each row probes by doing ------------------------------------------------------- */

/* A child that no handler of the program's hears of: neither those of fork nor one of SIGCHLD, which might take it for
 * one of the program's. So who waits for it has to say that it may be such a one. */
static pid_t probe_child(void)
{
	return (pid_t)syscall(SYS_clone, 0, NULL, NULL, NULL, NULL);
}

static void probe_child_end(pid_t child)
{
	while (waitpid(child, NULL, __WALL) < 0 && errno == EINTR)
		;
}

/* Reach into a child, as one process into another of the same user. */
static int probe_process_vm(int write, char *why, size_t size)
{
	volatile uint64_t word = 0x1234;
	uint64_t mine = 0x5678;
	struct iovec here = {&mine, sizeof(mine)}, there = {(void *)(uintptr_t)&word, sizeof(word)};
	int pipes[2];
	char byte;
	ssize_t n;
	pid_t child;

	if (pipe2(pipes, O_CLOEXEC) != 0)
		return 0;
	child = probe_child();
	if (child < 0) {
		close(pipes[0]);
		close(pipes[1]);
		snprintf(why, size, "no child can be made: %s", strerror(errno));
		return 0;
	}
	if (child == 0) {
		close(pipes[1]);
		while (read(pipes[0], &byte, 1) < 0 && errno == EINTR) /* until the parent is done */
			;
		_exit(0);
	}
	n = write ? process_vm_writev(child, &here, 1, &there, 1, 0) : process_vm_readv(child, &here, 1, &there, 1, 0);
	if (n < 0)
		snprintf(
			why, size, "%s: %s", strerror(errno),
			errno == ENOSYS || errno == EPERM
				? "a seccomp filter or Yama refuses it: in a container, run with --cap-add=SYS_PTRACE "
				  "or a newer runtime; on the host, sysctl kernel.yama.ptrace_scope=0"
				: "AppArmor or SELinux may refuse it, as its log says; large messages go through "
				  "shared memory with two copies");
	close(pipes[0]);
	close(pipes[1]);
	probe_child_end(child);
	return n == sizeof(mine);
}

static int probe_readv(char *why, size_t size)
{
	return probe_process_vm(0, why, size);
}

static int probe_writev(char *why, size_t size)
{
	return probe_process_vm(1, why, size);
}

static int probe_yama(char *why, size_t size)
{
	char scope[16];

	if (host_read("/proc/sys/kernel/yama/ptrace_scope", scope, sizeof(scope)) == 0 || scope[0] == '0')
		return 1;
	snprintf(why, size, "kernel.yama.ptrace_scope is %c: %s", scope[0],
		 scope[0] == '1' ? "Thole allows it for its own processes by PR_SET_PTRACER (option ptracer)"
				 : "only privileged processes may; sysctl kernel.yama.ptrace_scope=0");
	return 0;
}

static int probe_memfd(char *why, size_t size)
{
	int fd = memfd_create("thole-probe", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		snprintf(why, size, "memfd_create: %s; processes of this host reach each other over the network alone",
			 strerror(errno));
	else
		close(fd);
	return fd >= 0;
}

static int probe_membarrier(char *why, size_t size)
{
	long commands = syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);

	if (commands >= 0 && (commands & MEMBARRIER_CMD_GLOBAL_EXPEDITED))
		return 1;
	snprintf(why, size,
		 "membarrier: %s; sleeping waits wake every millisecond, and what a program that computes has sent may "
		 "wait for its next call",
		 commands < 0 ? strerror(errno) : "no GLOBAL_EXPEDITED, which needs Linux 4.16");
	return 0;
}

static int probe_pidfd(char *why, size_t size)
{
	int fd = (int)syscall(SYS_pidfd_open, getpid(), 0);

	if (fd < 0)
		snprintf(why, size, "pidfd_open: %s; the end of a peer whose children live on is seen late",
			 strerror(errno));
	else
		close(fd);
	return fd >= 0;
}

static int probe_unix(char *why, size_t size)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (fd < 0)
		snprintf(why, size, "a Unix socket: %s; without it Thole cannot run here", strerror(errno));
	else
		close(fd);
	return fd >= 0;
}

static int probe_driver(char *why, size_t size)
{
	char kept[ERROR_DETAIL_MAX];
	struct driver driver;
	int error;

	error_save(kept);
	error = driver_open(&driver);
	if (error)
		snprintf(why, size, "%s", thole_detail());
	else
		driver_close(&driver);
	error_restore(kept);
	return !error;
}

static const struct {
	const char *name, *use;
	int (*probe)(char *why, size_t size);
} capabilities[] = {
	{"unix_sockets", "hand shared memory to peers, and see their end", probe_unix},
	{"memfd", "shared memory that needs no /dev/shm and leaves nothing behind", probe_memfd},
	{"process_vm_readv", "copy a large message once, by its receiver", probe_readv},
	{"process_vm_writev", "and by its sender at the same time", probe_writev},
	{"yama_unrestricted", "the two above between any processes of a user", probe_yama},
	{"membarrier", "sleep without a fence in every send", probe_membarrier},
	{"pidfd", "see the end of a peer at once, whatever it forked", probe_pidfd},
	{"raw_frames", "small messages to other hosts as raw Ethernet frames, in half the time of UDP", probe_raw},
	{"udp_segmentation", "hand 64 KiB of frames to the kernel at once", probe_udp_segment},
	{"udp_receive_offload", "and take as much from it", probe_udp_gro},
	{"driver",
	 "move large messages between hosts while programs compute, send small ones as raw frames, see mappings "
	 "change, map memory of peers",
	 probe_driver},
	{"receive_buffers", "sockets that hold what several senders send at once", probe_receive_buffer},
};

int thole_capability(unsigned index, struct thole_capability *capability_p)
{
	static __thread char why[512];

	if (index >= sizeof(capabilities) / sizeof(capabilities[0]))
		return error_set(THOLE_ERR_NOT_FOUND, "capability number %u: there are %zu", index,
				 sizeof(capabilities) / sizeof(capabilities[0]));
	why[0] = '\0';
	*capability_p = (struct thole_capability){
		.name = capabilities[index].name,
		.use = capabilities[index].use,
		.available = capabilities[index].probe(why, sizeof(why)),
		.why = why,
	};
	return 0;
}
