#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# with_provider.sh MODULE COMMAND...: the command, whose libfabric finds this provider and no other. libfabric takes any
# lib*-fi.so of a folder, so the module has one of its own meanwhile.
folder=$(mktemp -d) || exit
trap 'rm -r "$folder"' EXIT
ln -s "$(realpath "$1")" "$folder/libthole-fi.so" || exit
shift
FI_PROVIDER_PATH=$folder FI_PROVIDER=thole "$@"
