/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernel's copies between processes, where a test takes their place (-Wl,--wrap). */
#ifndef PROCESS_VM_H
#define PROCESS_VM_H

#include <sys/types.h>
#include <sys/uio.h>

ssize_t __real_process_vm_readv(pid_t pid, const struct iovec *local, unsigned long local_count,
				const struct iovec *remote, unsigned long remote_count, unsigned long flags);
ssize_t __wrap_process_vm_readv(pid_t pid, const struct iovec *local, unsigned long local_count,
				const struct iovec *remote, unsigned long remote_count, unsigned long flags);
ssize_t __real_process_vm_writev(pid_t pid, const struct iovec *local, unsigned long local_count,
				 const struct iovec *remote, unsigned long remote_count, unsigned long flags);
ssize_t __wrap_process_vm_writev(pid_t pid, const struct iovec *local, unsigned long local_count,
				 const struct iovec *remote, unsigned long remote_count, unsigned long flags);

#endif
