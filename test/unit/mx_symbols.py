# SPDX-License-Identifier: BSD-3-Clause
"""What libmyriexpress.so exports, and under which versions: mx_symbols.py READELF LIBRARY.

Binaries of MX ask for these names with these versions, and for the others without any. Nothing else may be visible.
"""

from __future__ import annotations

import re
import subprocess
import sys

VERSIONS = {
    "mx_open_endpoint": "MX_0.9",
    "mx_decompose_endpoint_addr": "MX_0.9",
    "mx_get_info": "MX_0.91",
    "mx_test": "MX_0.91",
    "mx_wait": "MX_0.91",
    "mx_iprobe": "MX_0.91",
    "mx__init_api": "MX_0.92",
}
UNVERSIONED = """
    MX_ERRORS_ARE_FATAL MX_ERRORS_RETURN
    mx_board_number_to_nic_id mx_buffered mx_cancel mx_close_endpoint mx_connect mx_context mx_disable_progression
    mx_finalize mx_get_endpoint_addr mx_hostname_to_nic_id mx_ibuffered mx_iget mx_ipeek mx_iput mx_irecv mx_isend
    mx_issend mx_nic_id_to_board_number mx_nic_id_to_hostname mx_peek mx_probe mx_reenable_progression
    mx_register_unexp_callback
    mx_set_error_handler mx_strerror mx_strstatus mx_test_any mx_wait_any mx_wakeup
    mx_decompose_endpoint_addr2 mx_disconnect mx_forget mx_get_endpoint_addr_context mx_iconnect mx_progress
    mx_register_unexp_handler mx_set_endpoint_addr_context mx_set_request_timeout
    mx__get_mapper_state mx__regcache_clean mx_open_board
    mx_raw_clear_routes mx_raw_close_endpoint mx_raw_handle mx_raw_line_speed mx_raw_next_event mx_raw_num_ports
    mx_raw_open_endpoint mx_raw_remove_peer mx_raw_send mx_raw_set_hostname mx_raw_set_map_version
    mx_raw_set_nic_reply_info mx_raw_set_peer_name mx_raw_set_route mx_raw_set_route_begin mx_raw_set_route_end
    mx_raw_set_route_mag
""".split()
VERSION_NAMES = ["MX_0.0", "MX_0.9", "MX_0.91", "MX_0.92"]


def readelf(program: str, library: str, *options: str) -> str:
    return subprocess.run([program, "--wide", *options, library], check=True, stdout=subprocess.PIPE, text=True).stdout


def exported(text: str, nodes: str) -> dict[str, str]:
    """From names to versions ("" none) of what a table of dynamic symbols defines for others. nodes: their names."""
    found = {}
    for line in text.splitlines():
        # number: value size type binding visibility section name
        fields = line.split()
        if len(fields) < 8 or fields[4] not in ("GLOBAL", "WEAK", "UNIQUE") or fields[6] == "UND":
            continue
        name, _, version = fields[7].partition("@@")
        if fields[6] == "ABS" and re.fullmatch(nodes, name):
            continue  # the versions themselves
        found[name] = version
    return found


def main() -> int:
    program, library = sys.argv[1:]
    expected = {**{name: "" for name in UNVERSIONED}, **VERSIONS}
    found = exported(readelf(program, library, "--dyn-syms"), "|".join(map(re.escape, VERSION_NAMES)))
    wrong = []
    for name in sorted(expected.keys() | found.keys()):
        if expected.get(name) != found.get(name):
            wrong.append(f"{name}: is {found.get(name, 'missing')!r}, should be {expected.get(name, 'hidden')!r}")

    dynamic = readelf(program, library, "--dynamic")
    if "Library soname: [libmyriexpress.so]" not in dynamic:
        wrong.append("the soname is not libmyriexpress.so")
    versions = readelf(program, library, "--version-info")
    defined = re.findall(r"Flags: \S+\s+Index: \d+\s+Cnt: \d+\s+Name: (\S+)", versions)
    if defined[1:] != VERSION_NAMES:  # the first is the library
        wrong.append(f"versions defined are {defined[1:]}, should be {VERSION_NAMES}")
    print("\n".join(wrong) or f"{len(found)} symbols")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
