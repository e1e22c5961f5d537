/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * provider.h - the objects of the libfabric provider and the functions that its files offer each
 * other.
 *
 * The provider turns libfabric calls into thole.h calls and Thole completions into completion queue
 * entries and counts. It stands on thole.h, and on src/base for its lock, alone.
 *
 * Locking: a domain has one lock. It guards everything that belongs to the domain: endpoints and
 * what Thole keeps for them, address vectors, queues, counters, regions. Where only one thread uses
 * a domain (FI_THREAD_DOMAIN) there is no lock at all. So Thole's endpoints are always opened for a
 * single thread: one lock taken once an operation is cheaper than Thole's, a queue's and an address
 * vector's. Nobody sleeps with the lock held. Event queues have a lock of their own, which is taken
 * last.
 */
#ifndef PROVIDER_PROVIDER_H
#define PROVIDER_PROVIDER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/lock.h"
#include "compat.h"
#include "thole.h"

#define prov_likely(x) __builtin_expect(!!(x), 1)
#define prov_unlikely(x) __builtin_expect(!!(x), 0)
#define prov_of(pointer, type, member) ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

enum prov_limits {
	PROV_INJECT_MAX =
		4096, /* bytes that an inject call takes; what one eager message holds with ease */
	PROV_SEGMENTS_MAX = 64, /* iov_limit; MPIs size arrays of theirs by it */
	PROV_QUEUE_MIN = 256,   /* entries of a completion queue before it grows */
	PROV_CONTEXTS =
		1024, /* sends and receives that a user should keep under way; no limit of ours */
	PROV_COUNTERS_MAX = 128, /* Thole counters that are written to the log */
	PROV_OPTIONS_MAX = 64, /* Thole options that can be given as FI_THOLE_* */
	PROV_NONE = UINT32_MAX /* no such peer; equal to THOLE_ANY */
};

/* ---- Objects --------------------------------------------------------------------------------- */

struct prov_fabric {
	struct fid_fabric fid;
	atomic_uint users; /* domains and event queues that are open */
};

struct prov_endpoint;
struct prov_region;
struct prov_thread;

struct prov_domain {
	struct fid_domain fid;
	struct prov_fabric *fabric;
	struct prov_eq *eq;
	struct prov_thread *thread;       /* makes progress for FI_PROGRESS_AUTO, else NULL */
	bool safe;                        /* more than one thread may come: take the lock */
	bool posted;                      /* a message, since a queue was read */
	bool rma_event;                   /* peers' accesses to regions are counted */
	struct prov_endpoint **endpoints; /* the open ones; an endpoint's slot is its index here */
	size_t endpoint_count;
	struct prov_region *regions; /* all that are open, for endpoints that come later */
	unsigned users;              /* objects opened in the domain */
	struct lock lock;
};

static inline void prov_domain_lock(struct prov_domain *domain)
{
	if (prov_unlikely(domain->safe))
		lock_take(&domain->lock);
}

static inline bool prov_domain_trylock(struct prov_domain *domain)
{
	return prov_likely(!domain->safe) || lock_try(&domain->lock);
}

static inline void prov_domain_unlock(struct prov_domain *domain)
{
	if (prov_unlikely(domain->safe))
		lock_leave(&domain->lock);
}

/* The endpoints that a queue, counter or thread lives on, and how to sleep until one of them has
 * something. */
struct prov_watch {
	struct prov_domain *domain;
	struct prov_endpoint **endpoints;
	size_t count;
	int epoll; /* readable when an endpoint or the event is; -1 until somebody wants to sleep */
	int event; /* an eventfd, for what happens without an endpoint's descriptor noticing */
	bool armed;    /* somebody may be asleep: the next completion writes to event */
	bool signaled; /* somebody asked for a sleeper to be woken */
};

struct prov_cq_slot {
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry *error; /* not NULL: the operation failed, and entry is not used */
	fi_addr_t source;
};

struct prov_cq {
	struct fid_cq fid;
	struct prov_domain *domain;
	struct prov_cq_slot
		*slots; /* a power of two of them, doubled when full, so that nothing is lost */
	size_t mask;
	size_t head, tail; /* count entries taken and entered since the queue was opened */
	size_t entry_size; /* of the format; every format is the front of fi_cq_tagged_entry */
	struct fi_cq_err_entry *spare; /* for the next error: a peek that finds nothing makes one each time */
	enum fi_wait_obj wait_obj;
	bool overrun; /* memory for a larger ring ran out */
	bool draining; /* the last read took something */
	struct prov_watch watch;
	unsigned users;
};

struct prov_counter {
	struct fid_cntr fid;
	struct prov_domain *domain;
	atomic_uint_fast64_t value;
	atomic_uint_fast64_t errors;
	bool bytes; /* count bytes instead of operations */
	enum fi_wait_obj wait_obj;
	struct prov_watch watch;
	unsigned users;
};

struct prov_eq_event {
	struct prov_eq_event *next;
	uint32_t event;
	bool is_error;
	size_t size;
	struct fi_eq_err_entry error;
	unsigned char data[];
};

struct prov_eq {
	struct fid_eq fid;
	struct prov_fabric *fabric;
	pthread_mutex_t lock; /* protects the list; taken last */
	struct prov_eq_event *head, **tail_p;
	int event; /* an eventfd: readable while the list has something */
	enum fi_wait_obj wait_obj;
	atomic_uint users;
};

struct prov_av {
	struct fid_av fid;
	struct prov_domain *domain;
	struct prov_eq *eq;
	bool asynchronous;               /* FI_EVENT: insertions report to eq */
	struct thole_address *addresses; /* by fi_addr_t; a free one has an empty text */
	size_t count, capacity;
	size_t free_count;                /* how many below count are free */
	struct prov_endpoint **endpoints; /* bound to it */
	size_t endpoint_count;
};

/* Numbers by number; PROV_NONE where nothing was set. */
struct prov_map {
	size_t count;
	uint32_t values[];
};

static inline uint32_t prov_map_get(const struct prov_map *map, uint64_t index)
{
	return prov_likely(index < map->count) ? map->values[index] : (uint32_t)PROV_NONE;
}

int prov_map_set(struct prov_map **map_p, size_t index, uint32_t value);

/* What happens when an operation of one kind ends: one row of an endpoint's table. */
struct prov_sink {
	struct prov_cq *cq;           /* NULL: none is bound */
	struct prov_counter *counter; /* NULL: none is bound */
	uint64_t flags;               /* of the queue entry */
	uint64_t imm_flag;            /* added where the sender gave immediate data */
};

enum prov_user_flags {
	PROV_SILENT = 1U << THOLE_USER_SHIFT, /* count it, but make no queue entry of success */
	PROV_WRAPPED = 1U << (THOLE_USER_SHIFT + 1), /* the context is a struct prov_scatter */
	PROV_SINKS = 2 * (THOLE_OP_REMOTE_ATOMIC + 1)
};

/* Which row is an operation's: messages have two, for plain ones and tagged ones. */
static inline unsigned prov_sink_index(unsigned operation, unsigned flags)
{
	return operation * 2 + !!(flags & THOLE_PLAIN);
}

/* A message that a peek with FI_CLAIM has taken out of matching. */
struct prov_claim {
	void *context;
	struct thole_message *message;
	struct thole_completion completion;
};

struct prov_endpoint {
	struct fid_ep fid;
	struct thole_endpoint *thole;
	struct prov_domain *domain;
	struct prov_map *peers;   /* fi_addr_t to Thole's peer */
	struct prov_map *sources; /* Thole's peer to fi_addr_t */
	unsigned inject_flags;    /* of thole_send for the inject calls */
	unsigned send_flags;      /* for the calls that take no flags */
	unsigned recv_flags;
	unsigned plain_recv_flags;
	bool directed;     /* receives look at their source address */
	bool wants_source; /* completions say their source */
	bool enabled;
	struct prov_sink sinks[PROV_SINKS];

	struct prov_av *av;
	uint64_t caps;
	uint64_t tx_flags, rx_flags;     /* default operation flags */
	bool tx_selective, rx_selective; /* only FI_COMPLETION makes queue entries */
	size_t multi_min;                /* FI_OPT_MIN_MULTI_RECV */
	struct prov_eq *eq;
	struct prov_claim *claims;
	size_t claim_count;
	bool peeked; /* the last peek at messages from anyone was told that there is none */
};

struct prov_region {
	struct fid_mr fid;
	struct prov_domain *domain;
	struct prov_region *next, **link; /* in the domain's list */
	void *base;
	size_t length;
	unsigned access;               /* enum thole_access; 0: not for peers */
	struct thole_region **exposed; /* by endpoint slot; NULL where not exposed */
	size_t exposed_count;
	struct prov_counter *counter; /* counts peers' writes, or NULL */
};

static inline struct prov_endpoint *prov_endpoint_of(struct fid_ep *fid)
{
	return prov_of(fid, struct prov_endpoint, fid);
}

/* ---- The files' functions -------------------------------------------------------------------- */

/* provider.c */
extern struct fi_provider prov_provider;
uint32_t prov_core_version(void);
const char *const *prov_options(void);
bool prov_option_thread(void);
bool prov_option_native(void);
void prov_log(enum fi_log_level level, enum fi_log_subsys subsystem, const char *function, int line,
	      const char *format, ...) __attribute__((format(printf, 5, 6)));

#define PROV_WARN(subsystem, ...) prov_log(FI_LOG_WARN, subsystem, __func__, __LINE__, __VA_ARGS__)
#define PROV_INFO(subsystem, ...) prov_log(FI_LOG_INFO, subsystem, __func__, __LINE__, __VA_ARGS__)

/* error.c */
int prov_error(int status);               /* positive FI_E* of a THOLE_ERR_* */
int prov_error_entry(const struct prov_endpoint *endpoint, int status);
static inline int prov_result(int status) /* 0 or negative FI_E* of a Thole call's return */
{
	return prov_likely(status >= 0) ? 0 : -prov_error(status);
}

/* info.c */
int prov_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
		 const struct fi_info *hints, struct fi_info **info_p);

/* fabric.c */
extern struct fi_ops prov_fabric_fid_ops;
int prov_fabric_open(struct fi_fabric_attr *attr, struct fid_fabric **fabric_p, void *context);

/* domain.c, region.c */
extern struct fi_ops prov_domain_fid_ops;
extern struct fi_ops_mr prov_region_ops;
int prov_domain_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain_p,
		     void *context);
int prov_region_expose_all(struct prov_endpoint *endpoint, size_t slot);
void prov_region_unexpose_all(struct prov_endpoint *endpoint, size_t slot);

/* thread.c */
int prov_thread_start(struct prov_domain *domain, struct prov_thread **thread_p);
int prov_thread_add(struct prov_thread *thread, struct prov_endpoint *endpoint);
void prov_thread_remove(struct prov_thread *thread, struct prov_endpoint *endpoint);
void prov_thread_stop(struct prov_thread *thread);

/* av.c */
int prov_av_open(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **av_p,
		 void *context);
int prov_av_attach(struct prov_av *av, struct prov_endpoint *endpoint);
void prov_av_detach(struct prov_av *av, struct prov_endpoint *endpoint);

/* endpoint.c */
int prov_endpoint_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep_p,
		       void *context);

/* name.c */
extern struct fi_ops_cm prov_name_ops;

/* flags.c */
void prov_flags_settle(struct prov_endpoint *endpoint);
unsigned prov_flags_send(const struct prov_endpoint *endpoint, unsigned operation, uint64_t flags);
unsigned prov_flags_recv(const struct prov_endpoint *endpoint, unsigned plain, uint64_t flags);

/* completion.c */
thole_complete_fn prov_completion_take;
void prov_completion_report(struct prov_endpoint *endpoint,
			    const struct thole_completion *completion);

/* message.c, rma.c, atomic.c */
extern struct fi_ops_msg prov_message_ops;
extern struct fi_ops_tagged prov_tagged_ops;
extern struct fi_ops_rma prov_rma_ops;
extern struct fi_ops_atomic prov_atomic_ops;
int prov_atomic_query(struct fid_domain *domain, enum fi_datatype type, enum fi_op op,
		      struct fi_atomic_attr *attr, uint64_t flags);
void *prov_scatter_finish(void *context, bool failed); /* returns the user's context */

/* cq.c */
int prov_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq_p,
		 void *context);
int prov_cq_grow(struct prov_cq *cq);
void prov_cq_push_error(struct prov_cq *cq, const struct fi_cq_err_entry *error);
static inline struct prov_cq_slot *prov_cq_slot(struct prov_cq *cq);

/* counter.c, eq.c, poll.c */
int prov_counter_open(struct fid_domain *domain, struct fi_cntr_attr *attr,
		      struct fid_cntr **counter_p, void *context);
void prov_counter_add(struct prov_counter *counter, const struct thole_completion *completion);
int prov_eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **eq_p,
		 void *context);
int prov_eq_post(struct prov_eq *eq, uint32_t event, const void *data, size_t size);
int prov_eq_post_error(struct prov_eq *eq, const struct fi_eq_err_entry *error);
int prov_eq_trywait(struct prov_eq *eq);
int prov_poll_open(struct fid_domain *domain, struct fi_poll_attr *attr, struct fid_poll **poll_p);

/* watch.c */
int prov_watch_open(struct prov_watch *watch, struct prov_domain *domain,
		    enum fi_wait_obj wait_obj);
void prov_watch_close(struct prov_watch *watch);
int prov_watch_add(struct prov_watch *watch, struct prov_endpoint *endpoint);
void prov_watch_remove(struct prov_watch *watch, struct prov_endpoint *endpoint);
int prov_watch_arm(struct prov_watch *watch);
int prov_watch_sleep(struct prov_watch *watch, int timeout_ms);
void prov_watch_wake(struct prov_watch *watch);
int prov_watch_control(struct prov_watch *watch, enum fi_wait_obj wait_obj, int command, void *arg);
uint64_t prov_clock_ns(void);

/* A look at each endpoint, without a second one where it finds nothing. */
static inline void prov_watch_look(const struct prov_watch *watch)
{
	for (size_t i = 0; i < watch->count; i++)
		thole_poll(watch->endpoints[i]->thole, NULL, 0);
}

/* thole_progress may look again, all the time with the domain's lock: only where nobody else wants it. */
static inline void prov_watch_progress(const struct prov_watch *watch)
{
	if (prov_unlikely(watch->domain->safe)) {
		prov_watch_look(watch);
		return;
	}
	for (size_t i = 0; i < watch->count; i++)
		thole_progress(watch->endpoints[i]->thole);
}

/* Say that something was entered, to whoever may be asleep. */
static inline void prov_watch_note(struct prov_watch *watch)
{
	if (prov_unlikely(watch->armed))
		prov_watch_wake(watch);
}

/* The next free slot of a queue, or NULL if memory for it has run out. */
static inline struct prov_cq_slot *prov_cq_slot(struct prov_cq *cq)
{
	if (prov_unlikely(cq->tail - cq->head > cq->mask) && prov_cq_grow(cq))
		return NULL;
	return &cq->slots[cq->tail & cq->mask];
}

/* Whether there is nothing to read, for who does not hold the lock: a guess that may be old. */
static inline bool prov_cq_empty(const struct prov_cq *cq)
{
	return __atomic_load_n(&cq->head, __ATOMIC_RELAXED) ==
	       __atomic_load_n(&cq->tail, __ATOMIC_RELAXED);
}

/* One more has been entered (&cq->tail) or taken (&cq->head). */
static inline void prov_cq_count(size_t *counter)
{
	__atomic_store_n(counter, *counter + 1, __ATOMIC_RELAXED);
}

/* stub.c: what libfabric has and a shared-memory datagram endpoint has not. Each answers
 * -FI_ENOSYS. */
int prov_stub_bind(struct fid *fid, struct fid *other, uint64_t flags);
int prov_stub_control(struct fid *fid, int command, void *arg);
int prov_stub_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops,
		       void *context);
int prov_stub_tostr(const struct fid *fid, char *text, size_t length);
int prov_stub_ops_set(struct fid *fid, const char *name, uint64_t flags, void *ops, void *context);

#endif /* PROVIDER_PROVIDER_H */
