/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/verbs/iwarp.h"

#include "base/error.h"

#ifdef THOLE_HAVE_RDMACM
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/endian.h"
#include "base/list.h"
#include "transport/verbs/rdmacm.h"

enum {
	TOKEN = 16,             /* bytes */
	NAME_VERSION = 1,
	NAME_KIND = 4,          /* of adapter: others' names have less there */
	REQUEST_VERSION = 1,
	BACKLOG = 64,           /* requests that nobody has looked at; the kernel drops more */
	LISTEN_TRIES = 16,      /* ports: rdma_cm does not know which ones are TCP's */
	RESOLVE_MS = 1000,
	EVENTS_AT_ONCE = 32,    /* looked at, of which a stranger may have caused all */
};

/* Big-endian, but for what are only bytes. */
enum name_layout {
	NAME_AT_KIND = 1,
	NAME_AT_PORT = 2,
	NAME_AT_TOKEN = 4,
	NAME_AT_ADDRESS = NAME_AT_TOKEN + TOKEN,
	NAME_BYTES = NAME_AT_ADDRESS + 16,
};

/* What goes with a request. */
enum request_layout {
	REQUEST_AT_TO = 1,
	REQUEST_AT_FROM = REQUEST_AT_TO + TOKEN,
	REQUEST_BYTES = REQUEST_AT_FROM + TOKEN,
};

_Static_assert((int)NAME_BYTES <= (int)NIC_NAME_MAX, "a name fits");

enum link_state {
	LINK_NEW,
	LINK_EXPECTING, /* the peer is to ask */
	LINK_RESOLVING, /* the kernel looks for the adapter and the way */
	LINK_ASKING,    /* the peer was asked */
	LINK_ANSWERED,  /* it has asked, and was accepted */
	LINK_UP,
	LINK_BROKEN,
};

struct iwarp {
	const struct rdmacm *cm;
	struct iwarp_setup setup;
	struct rdma_event_channel *channel;
	struct rdma_cm_id *listener; /* NULL: none */
	uint16_t port;               /* its */
	struct list_node links;
	uint32_t due;                /* links that wait for the kernel or for the peer */
};

struct iwarp_link {
	struct list_node node;
	struct iwarp *iwarp;
	void *owner;
	struct rdma_cm_id *id;       /* NULL: none yet */
	uint32_t pair_number;
	uint8_t state;               /* enum link_state */
	bool stopped;
	bool asked;                  /* id is the peer's request, */
	uint8_t asked_reads, asked_peer_reads; /* and wants so many of ours and of its own */
	uint8_t token[TOKEN], peer[TOKEN];
};

bool iwarp_is_here(void)
{
	return rdmacm_load();
}

/* ---- Addresses ------------------------------------------------------------------------------------------ */

union place {
	struct sockaddr any;
	struct sockaddr_in ipv4;
	struct sockaddr_in6 ipv6;
};

static bool address_is_ipv4(const uint8_t address[16])
{
	static const uint8_t ipv4[12] = {[10] = 0xff, [11] = 0xff};

	return memcmp(address, ipv4, sizeof(ipv4)) == 0;
}

static void place_set(union place *place, const uint8_t address[16], uint16_t port)
{
	memset(place, 0, sizeof(*place));
	if (address_is_ipv4(address)) {
		place->ipv4.sin_family = AF_INET;
		place->ipv4.sin_port = htons(port);
		memcpy(&place->ipv4.sin_addr, address + 12, 4);
	} else {
		place->ipv6.sin6_family = AF_INET6;
		place->ipv6.sin6_port = htons(port);
		memcpy(&place->ipv6.sin6_addr, address, 16);
	}
}

/* Whether rdma_cm has found the adapter that the pairs are of: it goes by addresses, which others may share. */
static bool id_is_ours(const struct iwarp *iwarp, const struct rdma_cm_id *id)
{
	return id->verbs && strcmp(id->verbs->device->name, iwarp->setup.device) == 0;
}

/* ---- Opening -------------------------------------------------------------------------------------------- */

static struct rdma_cm_id *listener_new(struct iwarp *iwarp)
{
	struct rdma_cm_id *id;
	union place place;
	int reason = ENODEV;

	place_set(&place, iwarp->setup.address, 0);
	if (iwarp->cm->create_id(iwarp->channel, &id, NULL, RDMA_PS_TCP) != 0)
		return NULL;
	if (iwarp->cm->bind_addr(id, &place.any) != 0)
		reason = errno;
	else if (id_is_ours(iwarp, id) && iwarp->cm->listen(id, BACKLOG) == 0)
		return id;
	else if (id_is_ours(iwarp, id))
		reason = errno;
	iwarp->cm->destroy_id(id);
	errno = reason;
	return NULL;
}

static int iwarp_listen(struct iwarp *iwarp)
{
	for (int i = 0; i < LISTEN_TRIES && !iwarp->listener; i++) {
		iwarp->listener = listener_new(iwarp);
		if (!iwarp->listener && errno != EADDRINUSE)
			break;
	}
	if (!iwarp->listener)
		return error_set(THOLE_ERR_SYSTEM, "rdma_cm does not listen for the iWARP adapter %s: %m",
				 iwarp->setup.device);
	iwarp->port = ntohs(iwarp->cm->get_src_port(iwarp->listener));
	return 0;
}

static void iwarp_deafen(struct iwarp *iwarp)
{
	if (iwarp->listener)
		iwarp->cm->destroy_id(iwarp->listener);
	iwarp->listener = NULL;
}

int iwarp_move(struct iwarp *iwarp, const uint8_t address[16])
{
	iwarp_deafen(iwarp);
	memcpy(iwarp->setup.address, address, sizeof(iwarp->setup.address));
	return iwarp_listen(iwarp);
}

void iwarp_close(struct iwarp *iwarp)
{
	if (!iwarp)
		return;
	iwarp_deafen(iwarp);
	if (iwarp->channel)
		iwarp->cm->destroy_event_channel(iwarp->channel);
	free(iwarp);
}

int iwarp_open(const struct iwarp_setup *setup, struct iwarp **iwarp_p)
{
	const struct rdmacm *cm = rdmacm_load();
	struct iwarp *iwarp = cm ? calloc(1, sizeof(*iwarp)) : NULL;
	int error = 0;

	if (!cm)
		return THOLE_ERR_UNSUPPORTED;
	if (!iwarp)
		return error_set(THOLE_ERR_MEMORY, "no memory for an adapter's connections");
	iwarp->cm = cm;
	iwarp->setup = *setup;
	list_init(&iwarp->links);
	iwarp->channel = cm->create_event_channel();
	if (!iwarp->channel ||
	    fcntl(iwarp->channel->fd, F_SETFL, fcntl(iwarp->channel->fd, F_GETFL) | O_NONBLOCK) != 0)
		error = error_set(THOLE_ERR_SYSTEM,
				  "rdma_cm is not to be had for the iWARP adapter %s: %m; is the module rdma_ucm "
				  "loaded, and /dev/infiniband/rdma_cm permitted?",
				  setup->device);
	if (!error)
		error = iwarp_listen(iwarp);
	if (error)
		iwarp_close(iwarp);
	else
		*iwarp_p = iwarp;
	return error;
}

int iwarp_fd(const struct iwarp *iwarp)
{
	return iwarp->channel->fd;
}

bool iwarp_is_due(const struct iwarp *iwarp)
{
	return iwarp->due > 0;
}

/* ---- Links ---------------------------------------------------------------------------------------------- */

static void link_set(struct iwarp_link *link, enum link_state state)
{
	link->iwarp->due -= link->state > LINK_NEW && link->state < LINK_UP;
	link->state = (uint8_t)state;
	link->iwarp->due += link->state > LINK_NEW && link->state < LINK_UP;
}

static void link_drop(struct iwarp_link *link)
{
	if (link->id)
		link->iwarp->cm->destroy_id(link->id);
	link->id = NULL;
	link->asked = false;
}

int iwarp_link_new(struct iwarp *iwarp, uint32_t pair_number, void *owner, struct iwarp_link **link_p,
		   struct nic_name *name_p)
{
	struct iwarp_link *link;

	if (!iwarp->listener)
		return error_set(THOLE_ERR_SYSTEM, "the iWARP adapter %s has no listener", iwarp->setup.device);
	link = calloc(1, sizeof(*link));
	if (!link)
		return THOLE_ERR_MEMORY;
	*link = (struct iwarp_link){.iwarp = iwarp, .owner = owner, .pair_number = pair_number};
	if (getrandom(link->token, TOKEN, 0) != TOKEN) {
		free(link);
		return error_set(THOLE_ERR_SYSTEM, "the kernel has no random bits: %m");
	}
	list_push_back(&iwarp->links, &link->node);
	memset(name_p, 0, sizeof(*name_p));
	name_p->length = NAME_BYTES;
	name_p->bytes[0] = NAME_VERSION;
	name_p->bytes[NAME_AT_KIND] = NAME_KIND;
	store_be16(name_p->bytes + NAME_AT_PORT, iwarp->port);
	memcpy(name_p->bytes + NAME_AT_TOKEN, link->token, TOKEN);
	memcpy(name_p->bytes + NAME_AT_ADDRESS, iwarp->setup.address, sizeof(iwarp->setup.address));
	*link_p = link;
	return 0;
}

static uint8_t fewer(uint8_t a, uint8_t b)
{
	return a < b ? a : b;
}

static int link_ask(struct iwarp_link *link)
{
	uint8_t request[REQUEST_BYTES] = {REQUEST_VERSION};
	struct rdma_conn_param param = {
		.private_data = request,
		.private_data_len = sizeof(request),
		.responder_resources = link->iwarp->setup.peer_reads,
		.initiator_depth = link->iwarp->setup.reads,
		.srq = 1,
		.qp_num = link->pair_number,
	};

	memcpy(request + REQUEST_AT_TO, link->peer, TOKEN);
	memcpy(request + REQUEST_AT_FROM, link->token, TOKEN);
	link_set(link, LINK_ASKING);
	return link->iwarp->cm->connect(link->id, &param);
}

static int link_answer(struct iwarp_link *link)
{
	struct rdma_conn_param param = {
		.responder_resources = fewer(link->asked_peer_reads, link->iwarp->setup.peer_reads),
		.initiator_depth = fewer(link->asked_reads, link->iwarp->setup.reads),
		.srq = 1,
		.qp_num = link->pair_number,
	};

	link->asked = false;
	link_set(link, LINK_ANSWERED);
	return link->iwarp->cm->accept(link->id, &param);
}

/* Who has asked is not whom we were told of, or comes too late. */
static void link_refuse(struct iwarp_link *link)
{
	link->iwarp->cm->reject(link->id, NULL, 0);
	link_drop(link);
}

static bool name_is_good(const struct iwarp *iwarp, const struct nic_name *name)
{
	return name->length == NAME_BYTES && name->bytes[0] == NAME_VERSION &&
	       name->bytes[NAME_AT_KIND] == NAME_KIND &&
	       address_is_ipv4(name->bytes + NAME_AT_ADDRESS) == address_is_ipv4(iwarp->setup.address);
}

static int link_resolve(struct iwarp_link *link, const struct nic_name *peer)
{
	struct iwarp *iwarp = link->iwarp;
	union place from, to;

	place_set(&from, iwarp->setup.address, 0);
	place_set(&to, peer->bytes + NAME_AT_ADDRESS, load_be16(peer->bytes + NAME_AT_PORT));
	if (iwarp->cm->create_id(iwarp->channel, &link->id, link, RDMA_PS_TCP) != 0) {
		link->id = NULL;
		return -1;
	}
	link_set(link, LINK_RESOLVING);
	return iwarp->cm->resolve_addr(link->id, &from.any, &to.any, RESOLVE_MS);
}

int iwarp_link_connect(struct iwarp_link *link, const struct nic_name *peer)
{
	const struct iwarp *iwarp = link->iwarp;
	int order = memcmp(link->token, peer->bytes + NAME_AT_TOKEN, TOKEN);

	if (!name_is_good(iwarp, peer) || order == 0)
		return error_set(THOLE_ERR_ADDRESS, "the adapter %s and the peer's are of different kinds or networks",
				 iwarp->setup.device);
	if (link->asked && (order < 0 || memcmp(link->peer, peer->bytes + NAME_AT_TOKEN, TOKEN) != 0))
		link_refuse(link);
	memcpy(link->peer, peer->bytes + NAME_AT_TOKEN, TOKEN);
	if (order > 0 && !link->asked) {
		link_set(link, LINK_EXPECTING);
		return 0;
	}
	if ((order > 0 ? link_answer(link) : link_resolve(link, peer)) == 0)
		return 0;
	link_set(link, LINK_BROKEN);
	return error_set(THOLE_ERR_SYSTEM, "the adapter %s does not connect to the peer's: %m", iwarp->setup.device);
}

void iwarp_link_stop(struct iwarp_link *link)
{
	link->stopped = true;
	if (link->asked)
		link_refuse(link);
	if (link->state < LINK_ASKING) {
		link_drop(link);
		link_set(link, LINK_BROKEN);
	}
}

bool iwarp_link_is_over(const struct iwarp_link *link)
{
	return link->state != LINK_ASKING && link->state != LINK_ANSWERED;
}

void iwarp_link_free(struct iwarp_link *link)
{
	if (!link)
		return;
	link_set(link, LINK_BROKEN);
	link_drop(link);
	list_remove(&link->node);
	free(link);
}

/* ---- Events --------------------------------------------------------------------------------------------- */

/* As long for each token, so that nobody can feel his way to one. */
static bool token_is(const uint8_t *token, const uint8_t *other)
{
	uint8_t different = 0;

	for (int i = 0; i < TOKEN; i++)
		different |= (uint8_t)(token[i] ^ other[i]);
	return different == 0;
}

/* The link that may be asked by this token. NULL: none. */
static struct iwarp_link *link_find(struct iwarp *iwarp, const uint8_t *token)
{
	struct iwarp_link *found = NULL;

	for (struct list_node *node = list_first(&iwarp->links); node; node = list_next(&iwarp->links, node)) {
		struct iwarp_link *link = container_of(node, struct iwarp_link, node);

		if (token_is(link->token, token) && link->state <= LINK_EXPECTING && !link->id && !link->stopped)
			found = link;
	}
	return found;
}

/* Somebody asks: what is his, or a stranger's, is copied already. Returns what to tell of link_p. */
static enum iwarp_news request_take(struct iwarp *iwarp, struct rdma_cm_id *id, const uint8_t *request,
				    const struct rdma_conn_param *param, struct iwarp_link **link_p)
{
	struct iwarp_link *link = request[0] == REQUEST_VERSION ? link_find(iwarp, request + REQUEST_AT_TO) : NULL;

	if (!link || !id_is_ours(iwarp, id) ||
	    (link->state == LINK_EXPECTING && !token_is(link->peer, request + REQUEST_AT_FROM))) {
		iwarp->cm->reject(id, NULL, 0);
		iwarp->cm->destroy_id(id);
		return IWARP_NOTHING;
	}
	*link_p = link;
	link->id = id;
	id->context = link;
	link->asked = true;
	link->asked_reads = param->initiator_depth;
	link->asked_peer_reads = param->responder_resources;
	memcpy(link->peer, request + REQUEST_AT_FROM, TOKEN);
	if (link->state == LINK_EXPECTING && link_answer(link) != 0) {
		link_set(link, LINK_BROKEN);
		return IWARP_BROKEN;
	}
	return IWARP_NOTHING;
}

static enum iwarp_news link_fails(struct iwarp_link *link)
{
	enum iwarp_news news = link->state == LINK_BROKEN || link->stopped ? IWARP_NOTHING : IWARP_BROKEN;

	if (link->asked) { /* who has asked is gone, and his request with him; others may ask */
		link_drop(link);
		return IWARP_NOTHING;
	}
	link_set(link, LINK_BROKEN);
	return news;
}

static enum iwarp_news link_goes_on(struct iwarp_link *link, enum rdma_cm_event_type type)
{
	struct iwarp *iwarp = link->iwarp;
	bool asking = link->state == LINK_ASKING;

	switch (type) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		return id_is_ours(iwarp, link->id) && iwarp->cm->resolve_route(link->id, RESOLVE_MS) == 0
			       ? IWARP_NOTHING
			       : link_fails(link);
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		return link_ask(link) == 0 ? IWARP_NOTHING : link_fails(link);
	case RDMA_CM_EVENT_ESTABLISHED:
		if (link->state != LINK_ASKING && link->state != LINK_ANSWERED)
			return IWARP_NOTHING;
		link_set(link, LINK_UP);
		return asking && !link->stopped ? IWARP_CONNECTED : IWARP_NOTHING;
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
	case RDMA_CM_EVENT_ADDR_CHANGE:
		return IWARP_NOTHING;
	default:
		return link_fails(link);
	}
}

/* What an event brings. It is given back first: an id is not to be had away while it is not. */
static enum iwarp_news happened(struct iwarp *iwarp, struct rdma_cm_event *event, struct iwarp_link **link_p)
{
	enum rdma_cm_event_type type = event->event;
	struct rdma_cm_id *id = event->id;
	struct rdma_conn_param param = event->param.conn;
	uint8_t request[REQUEST_BYTES] = {0};

	if (type == RDMA_CM_EVENT_CONNECT_REQUEST && param.private_data && param.private_data_len >= REQUEST_BYTES)
		memcpy(request, param.private_data, REQUEST_BYTES);
	iwarp->cm->ack_cm_event(event);
	if (type == RDMA_CM_EVENT_CONNECT_REQUEST)
		return request_take(iwarp, id, request, &param, link_p);
	if (type == RDMA_CM_EVENT_DEVICE_REMOVAL) {
		iwarp_deafen(iwarp); /* the device does not go before that has */
		return IWARP_GONE;
	}
	*link_p = id->context;
	return *link_p ? link_goes_on(*link_p, type) : IWARP_NOTHING;
}

enum iwarp_news iwarp_next(struct iwarp *iwarp, void **owner_p)
{
	struct rdma_cm_event *event;
	struct iwarp_link *link = NULL;

	*owner_p = NULL;
	for (int i = 0; i < EVENTS_AT_ONCE && iwarp->cm->get_cm_event(iwarp->channel, &event) == 0; i++) {
		enum iwarp_news news = happened(iwarp, event, &link);

		if (news == IWARP_NOTHING)
			continue;
		*owner_p = link ? link->owner : NULL;
		return news;
	}
	return IWARP_NOTHING;
}

#else

bool iwarp_is_here(void)
{
	error_set(THOLE_ERR_UNSUPPORTED, "this Thole was built without iWARP: build it where <rdma/rdma_cma.h> is "
					 "(Debian: librdmacm-dev; Fedora: rdma-core-devel)");
	return false;
}

int iwarp_open(const struct iwarp_setup *setup, struct iwarp **iwarp_p)
{
	(void)setup, (void)iwarp_p;
	iwarp_is_here();
	return THOLE_ERR_UNSUPPORTED;
}

/* Of what cannot be opened there is nothing. */
void iwarp_close(struct iwarp *iwarp)
{
	(void)iwarp;
}

int iwarp_move(struct iwarp *iwarp, const uint8_t address[16])
{
	(void)iwarp, (void)address;
	return THOLE_ERR_UNSUPPORTED;
}

int iwarp_fd(const struct iwarp *iwarp)
{
	(void)iwarp;
	return -1;
}

bool iwarp_is_due(const struct iwarp *iwarp)
{
	(void)iwarp;
	return false;
}

enum iwarp_news iwarp_next(struct iwarp *iwarp, void **owner_p)
{
	(void)iwarp, (void)owner_p;
	return IWARP_NOTHING;
}

int iwarp_link_new(struct iwarp *iwarp, uint32_t pair_number, void *owner, struct iwarp_link **link_p,
		   struct nic_name *name_p)
{
	(void)iwarp, (void)pair_number, (void)owner, (void)link_p, (void)name_p;
	return THOLE_ERR_UNSUPPORTED;
}

int iwarp_link_connect(struct iwarp_link *link, const struct nic_name *peer)
{
	(void)link, (void)peer;
	return THOLE_ERR_UNSUPPORTED;
}

void iwarp_link_stop(struct iwarp_link *link)
{
	(void)link;
}

bool iwarp_link_is_over(const struct iwarp_link *link)
{
	(void)link;
	return true;
}

void iwarp_link_free(struct iwarp_link *link)
{
	(void)link;
}

#endif
