/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/datagram/mac.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

#include "base/endian.h"

enum {
	GET_TAG = 0x10,    /* EVP_CTRL_AEAD_GET_TAG */
	NONCE_BYTES = 12,
	TROUBLE_MAX = 200,
};

/* What is used of it, by the names and types of openssl/evp.h; nothing of it is needed to build. */
typedef struct evp_cipher_st cipher;
typedef struct evp_cipher_ctx_st context;

static struct {
	cipher *(*fetch)(void *library, const char *name, const char *properties);
	context *(*make)(void);
	void (*end)(context *);
	int (*init)(context *, const cipher *, void *engine, const unsigned char *key, const unsigned char *nonce);
	int (*update)(context *, unsigned char *out, int *out_length, const unsigned char *in, int in_length);
	int (*final)(context *, unsigned char *out, int *out_length);
	int (*control)(context *, int type, int argument, void *pointer);
} crypto;

static char trouble[TROUBLE_MAX];
/* NULL: there is none. It is kept: libcrypto clears away as the program exits, perhaps before what sends last then, and
 * would have to look for it again for each context. */
static cipher *aes_gcm;

static void mac_close(void *mac)
{
	crypto.end(mac);
}

static void *mac_open(const uint8_t key[GUARD_KEY])
{
	context *mac = crypto.make();

	if (mac && crypto.init(mac, aes_gcm, NULL, key, NULL) == 1)
		return mac;
	if (mac)
		crypto.end(mac);
	return NULL;
}

static bool mac_tag(void *mac, uint64_t number, const struct iovec *parts, size_t count, uint8_t tag[PACKET_TAG_LONG])
{
	uint8_t nonce[NONCE_BYTES] = {0}, none[PACKET_TAG_LONG];
	int length;

	store_be64(nonce + 4, number);
	if (crypto.init(mac, NULL, NULL, NULL, nonce) != 1)
		return false;
	for (size_t i = 0; i < count; i++)
		if (parts[i].iov_len > 0 &&
		    crypto.update(mac, NULL, &length, parts[i].iov_base, (int)parts[i].iov_len) != 1)
			return false;
	return crypto.final(mac, none, &length) == 1 && crypto.control(mac, GET_TAG, PACKET_TAG_LONG, tag) == 1;
}

static void mac_load(void)
{
	void *library = dlopen("libcrypto.so.3", RTLD_NOW | RTLD_LOCAL);
	const struct {
		const char *name;
		void *where;
	} names[] = {
		{"EVP_CIPHER_fetch", &crypto.fetch},
		{"EVP_CIPHER_CTX_new", &crypto.make},
		{"EVP_CIPHER_CTX_free", &crypto.end},
		{"EVP_EncryptInit_ex", &crypto.init},
		{"EVP_EncryptUpdate", &crypto.update},
		{"EVP_EncryptFinal_ex", &crypto.final},
		{"EVP_CIPHER_CTX_ctrl", &crypto.control},
	};

	bool loaded = library != NULL;

	for (size_t i = 0; loaded && i < sizeof(names) / sizeof(names[0]); i++) {
		*(void **)names[i].where = dlsym(library, names[i].name);
		loaded = *(void **)names[i].where != NULL;
	}
	if (!loaded)
		snprintf(trouble, sizeof(trouble), "%s", dlerror());
	else if (!(aes_gcm = crypto.fetch(NULL, "AES-128-GCM", NULL)))
		snprintf(trouble, sizeof(trouble), "OpenSSL's libcrypto has no AES-128-GCM here");
}

const struct mac *mac_libcrypto(void)
{
	static const struct mac mac = {mac_open, mac_close, mac_tag};
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, mac_load);
	return aes_gcm ? &mac : NULL;
}

const char *mac_trouble(void)
{
	return trouble;
}
