/* SPDX-License-Identifier: BSD-3-Clause */
/* user: whether another process is of this one's user, also where the kernel has one number for several users. */
#ifndef THOLE_BASE_USER_H
#define THOLE_BASE_USER_H

#include <stdbool.h>
#include <sys/types.h>

/* Whether all users that have no number in this user namespace are shown by this one, too. */
bool user_is_several(uid_t uid);
/* Whether a process that the kernel says is of the user `told` is of `own`, a user of this process. pid: of it, 0 where
 * it has none here. socket: a Unix socket that is connected to it, or -1. */
bool user_is_same(uid_t told, uid_t own, pid_t pid, int socket);

#endif
