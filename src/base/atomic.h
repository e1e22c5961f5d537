/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory order, in the only place where it is spelled out.
 *
 * Owns the few orderings that the rest of the library may use, under names that say what they
 * promise. Each is type-generic over integers and pointers that the machine loads and stores
 * whole. All of them work between processes that share the memory.
 *
 * A release and the acquire that reads its value are partners: the caller's comment at each of
 * them names the other.
 */
#ifndef BASE_ATOMIC_H
#define BASE_ATOMIC_H

/* The loads and stores of this thread after it stay after it: it sees what was written before the
 * store_release whose value it returns. */
#define load_acquire(pointer) __atomic_load_n((pointer), __ATOMIC_ACQUIRE)

/* The loads and stores of this thread before it stay before it. */
#define store_release(pointer, value) __atomic_store_n((pointer), (value), __ATOMIC_RELEASE)

/* Whole, but in no order with anything else. */
#define load_relaxed(pointer) __atomic_load_n((pointer), __ATOMIC_RELAXED)
#define store_relaxed(pointer, value) __atomic_store_n((pointer), (value), __ATOMIC_RELAXED)

/* Add, and return the former value; in no order with anything else. */
#define add_relaxed(pointer, value) __atomic_fetch_add((pointer), (value), __ATOMIC_RELAXED)

/* The same; acquire and release in one. */
#define add_acquire_release(pointer, value) __atomic_fetch_add((pointer), (value), __ATOMIC_ACQ_REL)

/* Set and return the former value; acquire and release in one. */
#define swap_acquire_release(pointer, value) \
	__atomic_exchange_n((pointer), (value), __ATOMIC_ACQ_REL)

/* Set to desired if it is *expected_pointer, and say whether it was; else *expected_pointer
 * becomes what is there. Acquire and release if it was, acquire if not. Does not fail spuriously.
 */
#define compare_swap(pointer, expected_pointer, desired)                                           \
	__atomic_compare_exchange_n((pointer), (expected_pointer), (desired), 0, __ATOMIC_ACQ_REL, \
				    __ATOMIC_ACQUIRE)

/* Orders everything before against everything after, an earlier store against a later load
 * included. That pair is what "say that I sleep, then poll once more" and its partner
 * "publish, then look for sleepers" need, and what acquire and release do not give. */
static inline void fence_full(void)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

/* Loads before it are made before loads behind it. */
static inline void fence_read(void)
{
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
}

/* The compiler keeps what is before it before what is after it; the processor need not. */
static inline void fence_compiler(void)
{
	__asm__ __volatile__("" ::: "memory");
}

/* In the body of a spin loop: frees the core's other thread and leaves the loop without a
 * penalty. */
static inline void cpu_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ __volatile__("isb" ::: "memory");
#else
	__asm__ __volatile__("" ::: "memory");
#endif
}

/* Hints: this line will be written (taken from its other owner now), or read, soon. Any address
 * does. */
static inline void prefetch_write(const void *address)
{
#if defined(__x86_64__)
	__asm__ __volatile__("prefetchw %0" ::"m"(*(const char *)address)); /* the builtin needs -mprfchw for it */
#else
	__builtin_prefetch(address, 1, 3);
#endif
}

/* The opposite: another core will read this line soon, so it may leave this core's cache for one that they share.
 * Nothing where the processor has no such instruction (cldemote is among the codes that older ones take for no
 * operation). */
static inline void line_demote(const void *address)
{
#if defined(__x86_64__)
	__asm__ __volatile__("cldemote %0" ::"m"(*(const char *)address));
#else
	(void)address;
#endif
}

static inline void prefetch_read(const void *address)
{
	__builtin_prefetch(address, 0, 3);
}

/* For a line that is read once. */
static inline void prefetch_once(const void *address)
{
	__builtin_prefetch(address, 0, 0);
}

#endif /* BASE_ATOMIC_H */
