// SPDX-License-Identifier: BSD-3-Clause
// thole.h in the oldest C++ that has it, with nothing beyond the standard: that it compiles, and that its functions are
// those of the library.
#include <thole.h>

int main()
{
	const char *options[] = {"network=off", NULL};
	struct thole_endpoint_attr attr = {THOLE_THREAD_SINGLE, options, NULL, NULL};
	struct thole_endpoint *endpoint;
	struct thole_address address;
	struct thole_request *request;
	struct thole_completion completion;
	uint32_t self;
	int sent = 42, got = 0;

	if (thole_endpoint_open(&attr, &endpoint) != 0)
		return 1;
	thole_endpoint_address(endpoint, &address);
	if (thole_peer(endpoint, &address, &self) != 0 ||
	    thole_send(endpoint, self, &sent, sizeof(sent), 1, 0, THOLE_INJECT | THOLE_QUIET, NULL, NULL) != 0 ||
	    thole_recv(endpoint, THOLE_ANY, &got, sizeof(got), 1, UINT64_MAX, 0, NULL, &request) != 0 ||
	    thole_wait(endpoint, request, -1, &completion) != 0)
		return 2;
	thole_endpoint_close(endpoint);
	return completion.status == 0 && completion.length == sizeof(got) && got == 42 ? 0 : 3;
}
