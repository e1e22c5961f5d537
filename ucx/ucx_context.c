/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ucx_context.c - contexts: what a program says once of all its requests; and which library this is.
 *
 * UCX's environment is not read: options are Thole's own. What is asked for beyond messages (remote memory, atomics,
 * streams, waking) is refused when a context is made, so that a program takes another way in time. One that has none
 * ends with words of its own, so that UCX's log says why.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "thole.h"
#include "ucx_log.h"
#include "ucx_state.h"

/* ---- Settings: there are none ---------------------------------------------------------------------- */

struct ucp_config {
	int none;
};

ucs_status_t ucp_config_read(const char *env_prefix, const char *filename, ucp_config_t **config_p)
{
	(void)env_prefix;
	(void)filename;
	*config_p = calloc(1, sizeof **config_p);
	return *config_p ? UCS_OK : UCS_ERR_NO_MEMORY;
}

void ucp_config_release(ucp_config_t *config)
{
	free(config);
}

ucs_status_t ucp_config_modify(ucp_config_t *config, const char *name, const char *value)
{
	(void)config;
	(void)name;
	(void)value;
	return UCS_OK; /* passed over, as what the environment says: programs end where this fails */
}

void ucp_config_print(const ucp_config_t *config, FILE *stream, const char *title, ucs_config_print_flags_t print_flags)
{
	(void)config;
	(void)print_flags;
	fprintf(stream, "# %s: Thole has none of UCX's settings; see `thole info options`\n", title);
}

/* ---- Which library this is ------------------------------------------------------------------------- */

void ucp_get_version(unsigned *major_version, unsigned *minor_version, unsigned *release_number)
{
	*major_version = UCP_API_MAJOR;
	*minor_version = UCP_API_MINOR;
	*release_number = 0;
}

const char *ucp_get_version_string(void)
{
	return thole_version();
}

ucs_status_t ucp_lib_query(ucp_lib_attr_t *attr)
{
	if (attr->field_mask & UCP_LIB_ATTR_FIELD_MAX_THREAD_LEVEL)
		attr->max_thread_level = UCS_THREAD_MODE_MULTI;
	return UCS_OK;
}

/* ---- Contexts -------------------------------------------------------------------------------------- */

/* MPICH asks for remote memory, too; where ucp_mem_map says that there is none, its windows go by active messages. */
static bool ucx_context_suits(uint64_t features)
{
	const uint64_t messages = UCP_FEATURE_TAG | UCP_FEATURE_AM;

	return !(features & ~messages) || features == (messages | UCP_FEATURE_RMA);
}

static ucs_status_t ucx_context_refuse(uint64_t features)
{
	char line[240];

	snprintf(line, sizeof line,
		 "no context with features 0x%" PRIx64 " here: this libucp.so.0 is Thole's, and has messages alone, no "
		 "remote memory, atomics, streams or waking; `thole run --through libfabric` leaves UCX's own in place",
		 features);
	ucx_log_warn(line);
	return UCS_ERR_UNSUPPORTED;
}

ucs_status_t ucp_init_version(unsigned api_major_version, unsigned api_minor_version, const ucp_params_t *params,
			      const ucp_config_t *config, ucp_context_h *context_p)
{
	struct ucp_context *context;

	(void)api_minor_version; /* what a later one has added is refused where it is asked for */
	(void)config;
	if (api_major_version != UCP_API_MAJOR)
		return UCS_ERR_INVALID_PARAM;
	if (!(params->field_mask & UCP_PARAM_FIELD_FEATURES))
		return UCS_ERR_UNSUPPORTED;
	ucx_log_find();
	if (!ucx_context_suits(params->features))
		return ucx_context_refuse(params->features);
	context = calloc(1, sizeof *context);
	if (!context)
		return UCS_ERR_NO_MEMORY;
	context->am = params->features & UCP_FEATURE_AM;
	context->memory = params->features & UCP_FEATURE_RMA;
	if (params->field_mask & UCP_PARAM_FIELD_REQUEST_SIZE)
		context->request_size = params->request_size;
	if (params->field_mask & UCP_PARAM_FIELD_REQUEST_INIT)
		context->request_init = params->request_init;
	if (params->field_mask & UCP_PARAM_FIELD_REQUEST_CLEANUP)
		context->request_cleanup = params->request_cleanup;
	ucx_state_name(context->name, params->field_mask & UCP_PARAM_FIELD_NAME ? params->name : NULL, context);
	*context_p = context;
	return UCS_OK;
}

/* MPICH asks so that it hears this, and goes on without. Others may end here. */
ucs_status_t ucp_mem_map(ucp_context_h context, const ucp_mem_map_params_t *params, ucp_mem_h *memory_p)
{
	static const char line[] = "no memory is mapped here: this libucp.so.0 is Thole's, and has messages alone, no "
				   "remote memory; `thole run --through libfabric` leaves UCX's own in place";

	(void)params;
	(void)memory_p;
	if (context->memory)
		ucx_log_info(line);
	else
		ucx_log_warn(line);
	return UCS_ERR_UNSUPPORTED;
}

void ucp_cleanup(ucp_context_h context)
{
	free(context);
}

ucs_status_t ucp_context_query(ucp_context_h context, ucp_context_attr_t *attr)
{
	if (attr->field_mask & UCP_ATTR_FIELD_REQUEST_SIZE)
		attr->request_size = sizeof(struct ucx_request);
	if (attr->field_mask & UCP_ATTR_FIELD_THREAD_MODE)
		attr->thread_mode = UCS_THREAD_MODE_MULTI;
	if (attr->field_mask & UCP_ATTR_FIELD_MEMORY_TYPES)
		attr->memory_types = UCS_BIT(UCS_MEMORY_TYPE_HOST);
	if (attr->field_mask & UCP_ATTR_FIELD_NAME)
		ucx_state_name(attr->name, context->name, context);
	return UCS_OK;
}

void ucp_context_print_info(const ucp_context_h context, FILE *stream)
{
	(void)context;
	fprintf(stream, "# Thole %s\n# resource 0 : md 0 dev 0 flags -- thole/thole\n", thole_version());
}
