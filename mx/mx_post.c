/* SPDX-License-Identifier: BSD-3-Clause */
#include "mx_post.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/errqueue.h>
#include <net/if.h>
#include <string.h>
#include <unistd.h>

#include "base/discard.h"
#include "base/limits.h"
#include "base/user.h"

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif

static const int on = 1, off = 0;

/* ---- Sockets --------------------------------------------------------------------------------- */

static int mxi_post_socket(int family)
{
	return limits_own(socket(family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

static int mxi_post_bind(int fd, const struct mxi_place *place)
{
	int error;

	if (fd >= 0 && bind(fd, &place->any, place->size) == 0)
		return fd;
	error = errno;
	if (fd >= 0)
		close(fd);
	errno = error;
	return -1;
}

/* Anybody of the host can send to it; the kernel says who does. Descriptors it takes none, where the kernel can do that
 * (Linux 6.16). */
int mxi_post_local(const struct mxi_place *place)
{
	int fd = mxi_post_socket(AF_UNIX);

	if (fd >= 0) {
		setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)); /* cannot fail on a socket of this kind */
		setsockopt(fd, SOL_SOCKET, SO_PASSRIGHTS, &off, sizeof(off));
	}
	return mxi_post_bind(fd, place);
}

int mxi_post_claim(const struct mxi_place *place)
{
	int fd = mxi_post_socket(AF_UNIX);

	if (fd >= 0)
		shutdown(fd, SHUT_RD);
	return mxi_post_bind(fd, place);
}

static struct ip_mreqn mxi_post_membership(const struct mxi_settings *settings, const struct mxi_board *board)
{
	struct ip_mreqn request = {.imr_ifindex = (int)if_nametoindex(board->interface)};

	if (settings)
		request.imr_multiaddr = settings->group;
	return request;
}

int mxi_post_udp(const struct mxi_board *board, uint16_t port)
{
	struct ip_mreqn way = mxi_post_membership(NULL, board);
	struct mxi_place place;
	int fd;

	if (!mxi_place_ip(&place, board->address, port, board)) {
		errno = EADDRNOTAVAIL;
		return -1;
	}
	fd = mxi_post_socket(place.any.sa_family);
	if (fd < 0) /* with its errno */
		return -1;
	if (place.any.sa_family == AF_INET6) {
		setsockopt(fd, IPPROTO_IPV6, IPV6_RECVERR, &on, sizeof(on));
		return mxi_post_bind(fd, &place);
	}
	setsockopt(fd, IPPROTO_IP, IP_RECVERR, &on, sizeof(on));
	setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &way, sizeof(way));
	setsockopt(fd, IPPROTO_IP, IP_MULTICAST_LOOP, &off, sizeof(off)); /* what this host has its own names find */
	return mxi_post_bind(fd, &place);
}

/* Bound to the group's address, it gets nothing else. Linux gives a multicast to every socket that
 * has joined; with SO_REUSEADDR they share the port whoever their users are, which SO_REUSEPORT
 * would not allow. */
int mxi_post_group(const struct mxi_settings *settings)
{
	struct mxi_place place;
	int fd = mxi_post_socket(AF_INET);

	if (fd < 0) /* with its errno */
		return -1;
	mxi_place_group(&place, settings);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	setsockopt(fd, IPPROTO_IP, IP_MULTICAST_ALL, &off, sizeof(off));
	return mxi_post_bind(fd, &place);
}

void mxi_post_join(int fd, const struct mxi_settings *settings, const struct mxi_board *board)
{
	struct ip_mreqn request = mxi_post_membership(settings, board);

	setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &request, sizeof(request)); /* or is a member already */
}

/* ---- Notices --------------------------------------------------------------------------------- */

int mxi_post_send(int fd, const struct mxi_place *to, const struct mxi_notice *notice)
{
	uint8_t bytes[MXI_NOTICE_BYTES_MAX];
	size_t length = mxi_notice_encode(notice, bytes);
	unsigned tries =
		to->any.sa_family == AF_UNIX ? 1 : 2; /* UDP's first may tell of an error that another datagram met */

	if (length == 0)
		return EINVAL;
	for (unsigned i = 0; i < tries; i++)
		if (sendto(fd, bytes, length, MSG_NOSIGNAL, &to->any, to->size) >= 0)
			return 0;
	return errno;
}

int mxi_post_send_as(int fd, const struct mxi_board *board, const struct mxi_place *to, const struct mxi_notice *notice)
{
	uint8_t bytes[MXI_NOTICE_BYTES_MAX];
	struct iovec part = {bytes, mxi_notice_encode(notice, bytes)};
	union {
		struct cmsghdr head;
		char space[CMSG_SPACE(sizeof(struct in_pktinfo))];
	} control = {.space = {0}};
	struct in_pktinfo info = {0};
	struct msghdr message = {.msg_name = (void *)(uintptr_t)&to->any,
				 .msg_namelen = to->size,
				 .msg_iov = &part,
				 .msg_iovlen = 1,
				 .msg_control = &control,
				 .msg_controllen = sizeof(control)};

	if (part.iov_len == 0 || inet_pton(AF_INET, board->address, &info.ipi_spec_dst) != 1)
		return EINVAL;
	control.head.cmsg_level = IPPROTO_IP;
	control.head.cmsg_type = IP_PKTINFO;
	control.head.cmsg_len = CMSG_LEN(sizeof(info));
	memcpy(CMSG_DATA(&control.head), &info, sizeof(info));
	return sendmsg(fd, &message, MSG_NOSIGNAL) >= 0 ? 0 : errno;
}

/* Descriptors that came along. */
static void mxi_post_discard(struct msghdr *message)
{
	int fds[DISCARD_RIGHTS_MAX];

	for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part; part = CMSG_NXTHDR(message, part)) {
		unsigned count = (unsigned)((part->cmsg_len - CMSG_LEN(0)) / sizeof(int));

		if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS || count > DISCARD_RIGHTS_MAX)
			continue;
		memcpy(fds, CMSG_DATA(part), count * sizeof(int));
		discard_received(fds, count);
	}
}

/* Inside the host, other users get no answer and are not believed, but root may ask what there
 * is. */
static bool mxi_post_is_of_others(struct msghdr *message)
{
	struct cmsghdr *part = CMSG_FIRSTHDR(message);
	struct ucred sender;

	if (!part || part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_CREDENTIALS ||
	    part->cmsg_len < CMSG_LEN(sizeof(sender)))
		return false; /* of another host */
	memcpy(&sender, CMSG_DATA(part), sizeof(sender));
	return sender.uid != 0 && !user_is_same(sender.uid, getuid(), sender.pid, -1);
}

enum mxi_post_got mxi_post_receive(int fd, struct mxi_notice *notice, struct mxi_place *from)
{
	uint8_t bytes[MXI_NOTICE_BYTES_MAX];
	struct iovec part = {bytes, sizeof(bytes)};
	union {
		struct cmsghdr head;
		char space[CMSG_SPACE(sizeof(struct ucred)) + CMSG_SPACE(DISCARD_RIGHTS_MAX * sizeof(int))];
	} control;
	struct msghdr message = {.msg_name = &from->any,
				 .msg_namelen = sizeof(from->local), /* the largest */
				 .msg_iov = &part,
				 .msg_iovlen = 1,
				 .msg_control = &control,
				 .msg_controllen = sizeof(control)};
	ssize_t length;

	memset(from, 0, sizeof(*from));
	length = recvmsg(fd, &message, MSG_TRUNC | MSG_CMSG_CLOEXEC);
	if (length < 0)
		return errno == EAGAIN || errno == EBADF ? MXI_POST_NOTHING : MXI_POST_NOISE;
	from->size = message.msg_namelen;
	mxi_post_discard(&message);
	if (mxi_post_is_of_others(&message))
		return MXI_POST_NOISE;
	if ((size_t)length > sizeof(bytes) || !mxi_notice_decode(bytes, (size_t)length, notice))
		return MXI_POST_NOISE;
	return MXI_POST_NOTICE;
}

static bool mxi_post_says_refused(struct msghdr *message)
{
	for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part; part = CMSG_NXTHDR(message, part)) {
		bool ipv4 = part->cmsg_level == IPPROTO_IP && part->cmsg_type == IP_RECVERR;
		bool ipv6 = part->cmsg_level == IPPROTO_IPV6 && part->cmsg_type == IPV6_RECVERR;
		struct sock_extended_err error;

		if ((!ipv4 && !ipv6) || part->cmsg_len < CMSG_LEN(sizeof(error)))
			continue;
		memcpy(&error, CMSG_DATA(part), sizeof(error));
		return error.ee_errno == ECONNREFUSED;
	}
	return false;
}

enum mxi_post_got mxi_post_refused(int fd, struct mxi_notice *notice)
{
	uint8_t bytes[MXI_NOTICE_BYTES_MAX];
	struct iovec part = {bytes, sizeof(bytes)};
	union {
		struct cmsghdr head;
		char space[256];
	} control;
	struct msghdr message = {
		.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
	ssize_t length = recvmsg(fd, &message, MSG_ERRQUEUE);

	if (length < 0)
		return MXI_POST_NOTHING;
	if (!mxi_post_says_refused(&message) || !mxi_notice_decode(bytes, (size_t)length, notice))
		return MXI_POST_NOISE;
	return MXI_POST_NOTICE;
}
