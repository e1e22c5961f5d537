/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause) */
/*
 * compat: what differs between the kernels that this is compiled for, 6.1 and later. Nothing else asks for a version.
 */
#ifndef THOLE_KERNEL_COMPAT_H
#define THOLE_KERNEL_COMPAT_H

#include <linux/errqueue.h>
#include <linux/hrtimer.h>
#include <linux/icmp.h>
#include <linux/instrumented.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/shrinker.h>
#include <linux/skbuff.h>
#include <linux/slab.h>
#include <linux/udp.h>
#include <linux/version.h>
#include <net/icmp.h>
#include <net/ip.h>
#include <net/ip_tunnels.h>
#include <net/route.h>
#include <net/sock.h>
#include <net/tcp_states.h>
#ifdef CONFIG_X86_64
#include <asm/cpufeature.h>
#endif
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 12, 0)
#include <asm/unaligned.h>
#else
#include <linux/unaligned.h>
#endif

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 5, 0)
/* Whether pages of a process that were just pinned to be written may stay so. Not those of a file whose file system is
 * told of each first write: it has them written out, and takes them for clean until the pins go, whatever was written
 * through these meanwhile. From 6.5 on the kernel refuses to pin them. Under the process's mmap_lock. */
static inline bool compat_may_write(struct mm_struct *mm, unsigned long address, unsigned long pages)
{
	unsigned long end = address + (pages << PAGE_SHIFT);
	const struct vm_operations_struct *calls;
	struct vm_area_struct *vma;
	bool may = true;

	for (vma = find_vma(mm, address); may && vma && vma->vm_start < end; vma = find_vma(mm, vma->vm_end)) {
		calls = vma->vm_flags & VM_SHARED ? vma->vm_ops : NULL;
		may = !calls || !(calls->page_mkwrite || calls->pfn_mkwrite);
	}
	return may;
}

/* What was pinned, if it may stay so. */
static inline long compat_pinned(struct mm_struct *mm, unsigned long address, long got, unsigned int flags,
				 struct page **pages_p)
{
	if (got <= 0 || !(flags & FOLL_WRITE) || compat_may_write(mm, address, got))
		return got;
	unpin_user_pages(pages_p, got);
	return -EFAULT;
}
#endif

/* Pages of another process's, whose mmap_lock the caller holds, and keeps. So what would have to let go of it to wait,
 * such as for whoever answers a userfault, is EFAULT. */
static inline long compat_pin_remote(struct mm_struct *mm, unsigned long address, unsigned long pages,
				     unsigned int flags, struct page **pages_p)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 5, 0)
	return compat_pinned(mm, address, pin_user_pages_remote(mm, address, pages, flags, pages_p, NULL, NULL), flags,
			     pages_p);
#else
	return pin_user_pages_remote(mm, address, pages, flags, pages_p, NULL);
#endif
}

/* Pages of the running process's. Before 6.3 nobody waited for whoever answers a userfault; so ask for the memory as
 * the process itself would, and try again. A mapping that comes in its place before it is looked at is the caller's to
 * find out. */
static inline long compat_pin_own(unsigned long address, unsigned long pages, unsigned int flags,
				  struct page **pages_p)
{
	long got = pin_user_pages_fast(address, pages, flags, pages_p);
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 3, 0)
	const char __user *memory = (const char __user *)address;

	/* Not fault_in_writeable, which writes. */
	if (got == -EFAULT && !(flags & FOLL_WRITE ? fault_in_safe_writeable(memory, PAGE_SIZE) :
						     fault_in_readable(memory, PAGE_SIZE)))
		got = pin_user_pages_fast(address, pages, flags, pages_p);
#endif
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 5, 0)
	mmap_read_lock(current->mm);
	got = compat_pinned(current->mm, address, got, flags, pages_p);
	mmap_read_unlock(current->mm);
#endif
	return got;
}

/* As compat_pin_remote, without pins; and where `locked_p` is not NULL, it waits, and says whether the lock is still
 * held. */
static inline long compat_get_remote(struct mm_struct *mm, unsigned long address, unsigned long pages,
				     unsigned int flags, struct page **pages_p, int *locked_p)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 5, 0)
	return get_user_pages_remote(mm, address, pages, flags, pages_p, NULL, locked_p);
#else
	return get_user_pages_remote(mm, address, pages, flags, pages_p, locked_p);
#endif
}

/* Let go of what who touches memory holds: VM_FAULT_RETRY follows. */
static inline void compat_leave_fault(struct vm_fault *vmf)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 4, 0)
	mmap_read_unlock(vmf->vma->vm_mm);
#else
	release_fault_lock(vmf);
#endif
}

static inline void compat_change_flags(struct vm_area_struct *vma, vm_flags_t set, vm_flags_t clear)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 3, 0)
	vma->vm_flags = (vma->vm_flags | set) & ~clear;
#else
	vm_flags_mod(vma, set, clear);
#endif
}

static inline struct shrinker *compat_shrinker(unsigned long (*count)(struct shrinker *, struct shrink_control *),
					       unsigned long (*scan)(struct shrinker *, struct shrink_control *))
{
	struct shrinker *shrinker;

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 7, 0)
	shrinker = kzalloc(sizeof(*shrinker), GFP_KERNEL);
#else
	shrinker = shrinker_alloc(0, "thole");
#endif
	if (!shrinker)
		return NULL;
	shrinker->count_objects = count;
	shrinker->scan_objects = scan;
	shrinker->seeks = DEFAULT_SEEKS;
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 7, 0)
	if (register_shrinker(shrinker, "thole")) {
		kfree(shrinker);
		return NULL;
	}
#else
	shrinker_register(shrinker);
#endif
	return shrinker;
}

static inline void compat_shrinker_free(struct shrinker *shrinker)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 7, 0)
	unregister_shrinker(shrinker);
	kfree(shrinker);
#else
	shrinker_free(shrinker);
#endif
}

static inline void compat_timer(struct hrtimer *timer, enum hrtimer_restart (*function)(struct hrtimer *),
				clockid_t clock, enum hrtimer_mode mode)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 13, 0)
	hrtimer_init(timer, clock, mode);
	timer->function = function;
#else
	hrtimer_setup(timer, function, clock, mode);
#endif
}

/* With an IPv4 header, to where the route leads; nothing of it was in a packet before. */
static inline void compat_tunnel_xmit(struct sock *sk, struct rtable *route, struct sk_buff *skb, __be32 from,
				      __be32 to, u8 protocol, __be16 whole)
{
	u8 tos = inet_sk(sk)->tos, hops = ip4_dst_hoplimit(&route->dst);

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 17, 0)
	iptunnel_xmit(sk, route, skb, from, to, protocol, tos, hops, whole, false);
#else
	iptunnel_xmit(sk, route, skb, from, to, protocol, tos, hops, whole, false, 0);
#endif
}

/* Whether a packet's bytes are memory of the host's, and not of some device. */
static inline bool compat_readable(const struct sk_buff *skb)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 12, 0)
	return true;
#else
	return skb_frags_readable(skb);
#endif
}

enum { COMPAT_COPY_LONG = 256 };

/* As the kernel copies for programs: its memcpy uses an instruction for all of it only on the newest processors. What
 * the compiler does not see, a kernel that checks memory is told. */
static inline void compat_copy(void *to, const void *from, size_t length)
{
#ifdef CONFIG_X86_64
	if (length >= COMPAT_COPY_LONG) {
		size_t words = length / 8, rest = length % 8;

		instrument_read(from, length);
		instrument_write(to, length);
		if (cpu_feature_enabled(X86_FEATURE_ERMS))
			asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(length) : : "memory");
		else
			asm volatile("rep movsq\n\tmov %3, %%rcx\n\trep movsb"
				     : "+&D"(to), "+&S"(from), "+&c"(words) : "r"(rest) : "memory");
		return;
	}
#endif
	memcpy(to, from, length);
}

/* ICMP messages about what a socket has sent, told to its program: udp.c tells nobody of them where there is an
 * encap_rcv. As it does without one: to who wants reports, and to who is connected. */
static inline bool compat_wants_reports(struct sock *sk)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 6, 0)
	return inet_sk(sk)->recverr;
#else
	return inet_test_bit(RECVERR, sk);
#endif
}

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 2, 0)
static inline int compat_icmp_error(const struct icmphdr *icmp)
{
	if (icmp->type != ICMP_DEST_UNREACH || icmp->code > NR_ICMP_UNREACH)
		return EHOSTUNREACH;
	return icmp->code == ICMP_FRAG_NEEDED ? EMSGSIZE : icmp_err_convert[icmp->code].errno;
}

/* As ip_icmp_error, which is not exported. */
static inline void compat_report(struct sock *sk, struct sk_buff *skb, int err, unsigned int udp_offset)
{
	const struct icmphdr *icmp = icmp_hdr(skb);
	struct sk_buff *copy = skb_clone(skb, GFP_ATOMIC);
	struct sock_exterr_skb *said;

	if (!copy)
		return;
	said = SKB_EXT_ERR(copy);
	said->ee = (struct sock_extended_err){.ee_errno = err,
					      .ee_origin = SO_EE_ORIGIN_ICMP,
					      .ee_type = icmp->type,
					      .ee_code = icmp->code,
					      .ee_info = err == EMSGSIZE ? ntohs(icmp->un.frag.mtu) : 0};
	said->addr_offset = (u8 *)&((struct iphdr *)(icmp + 1))->daddr - skb_network_header(copy);
	said->port = ((const struct udphdr *)(skb->data + udp_offset))->dest;
	if (skb_pull(copy, udp_offset + sizeof(struct udphdr))) {
		skb_reset_transport_header(copy);
		if (sock_queue_err_skb(sk, copy) == 0)
			return;
	}
	kfree_skb(copy);
}

static inline void compat_encap_error(struct sock *sk, struct sk_buff *skb, unsigned int udp_offset)
{
	int err = compat_icmp_error(icmp_hdr(skb));

	if (compat_wants_reports(sk))
		compat_report(sk, skb, err, udp_offset);
#else
static inline void compat_encap_error(struct sock *sk, struct sk_buff *skb, int err, __be16 port, u32 info, u8 *payload)
{
	if (compat_wants_reports(sk))
		ip_icmp_error(sk, skb, err, port, info, payload);
#endif
	else if (err != ECONNREFUSED || sk->sk_state != TCP_ESTABLISHED)
		return;
	sk->sk_err = err;
	sk_error_report(sk);
}

#endif
