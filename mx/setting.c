/* SPDX-License-Identifier: BSD-3-Clause */
#include "setting.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "thole.h"

static int group_parse(const char *text, struct in_addr *group_p)
{
	struct in_addr group;

	if (strcmp(text, "off") == 0)
		return 0;
	if (inet_pton(AF_INET, text, &group) != 1 || !IN_MULTICAST(ntohl(group.s_addr)))
		return error_set(THOLE_ERR_ARGUMENT,
				 "option mx_group: \"%s\" must be an IPv4 multicast address (224.0.0.0 to 239.255.255.255) or off",
				 text);
	*group_p = group;
	return 0;
}

/* One option of those that matter here. */
static int take(struct mxi_settings *settings, const struct thole_option_info *info)
{
	if (strcmp(info->name, "mx_hosts") == 0)
		snprintf(settings->hosts, sizeof(settings->hosts), "%s", info->value);
	else if (strcmp(info->name, "mx_port") == 0)
		settings->port = (uint16_t)strtoul(info->value, NULL, 10);
	else if (strcmp(info->name, "mx_group") == 0)
		return group_parse(info->value, &settings->group);
	else if (strcmp(info->name, "codec") == 0 && strcmp(info->value, "native") != 0)
		settings->mxoe = true;
	else if (strcmp(info->name, "network") == 0 && strcmp(info->value, "off") == 0)
		settings->network = false;
	return 0;
}

int mxi_settings_load(struct mxi_settings *settings)
{
	struct thole_option_info info;
	int error = 0;

	*settings = (struct mxi_settings){.network = true};
	for (unsigned i = 0; thole_option_info(i, &info) == 0; i++) {
		int status = take(settings, &info);

		error = error ? error : status;
	}
	if (settings->mxoe) /* its own frames find peers, and hosts of MX have no directory of ours */
		settings->network = false;
	if (!settings->network)
		settings->group.s_addr = 0;
	return error;
}
