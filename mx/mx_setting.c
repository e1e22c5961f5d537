/* SPDX-License-Identifier: BSD-3-Clause */
#include "mx_setting.h"

#include <arpa/inet.h>
#include <string.h>

#include "base/error.h"
#include "thole.h"

enum { OPTION_MAX = 256 }; /* bytes of a value as text, its NUL included */

static int mxi_setting_group_parse(const char *text, struct in_addr *group_p)
{
	struct in_addr group;

	if (strcmp(text, "off") == 0)
		return 0;
	if (inet_pton(AF_INET, text, &group) != 1 || !IN_MULTICAST(ntohl(group.s_addr)))
		return error_set(THOLE_ERR_ARGUMENT,
				 "option mx_group: \"%s\" must be an IPv4 multicast address (224.0.0.0 to "
				 "239.255.255.255) or off",
				 text);
	*group_p = group;
	return 0;
}

static bool mxi_setting_option_is(const char *name, const char *value)
{
	char text[OPTION_MAX];

	return thole_option_get(NULL, name, text, sizeof(text)) == 0 && strcmp(text, value) == 0;
}

int mxi_setting_load(struct mxi_settings *settings)
{
	char group[OPTION_MAX] = "off";
	uint64_t port = 0;
	int error;

	*settings = (struct mxi_settings){
		.mxoe = !mxi_setting_option_is("codec", "native"),
		.network = !mxi_setting_option_is("network", "off"),
	};
	thole_option_get(NULL, "mx_hosts", settings->hosts, sizeof(settings->hosts));
	thole_option_number(NULL, "mx_port", &port);
	settings->port = (uint16_t)port;
	thole_option_get(NULL, "mx_group", group, sizeof(group));
	error = mxi_setting_group_parse(group, &settings->group);
	if (settings->mxoe) /* its own frames find peers, and hosts of MX have no directory of ours */
		settings->network = false;
	if (!settings->network)
		settings->group.s_addr = 0;
	if (!error) /* of the others, and of the files: one that could not be read just now says nothing */
		error = thole_options_check(NULL);
	return error < 0 ? error : 0;
}
