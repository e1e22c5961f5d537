#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Make the Debian package thole-dkms: driver_package.sh TREE OUT
# TREE is what tools/driver_tree.py has made (kernel/driver in a build folder); OUT gets the one file. DKMS compiles the
# module for each kernel that the host has headers of, now and later.
set -euo pipefail

tree=$(realpath "$1")
mkdir -p "$2"
out=$(realpath "$2")
version=$(sed -n 's/^PACKAGE_VERSION="\(.*\)"$/\1/p' "$tree/dkms.conf")
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
root=$work/root
umask 022

put() { install -D -m 644 "$1" "$root/$2"; }
(cd "$tree" && find . -type f) | while read -r file; do
	put "$tree/$file" "usr/src/thole-$version/$file"
done
put "$tree/60-thole.rules" etc/udev/rules.d/60-thole.rules
put "$tree/thole.modprobe" etc/modprobe.d/thole.conf
put "$tree/thole.modules-load" usr/lib/modules-load.d/thole.conf
put "$tree/LICENSE" usr/share/doc/thole-dkms/copyright

mkdir "$root/DEBIAN"
cat >"$root/DEBIAN/control" <<-END
	Package: thole-dkms
	Version: $version
	Architecture: all
	Maintainer: the Thole authors <thole@example.org>
	Section: kernel
	Priority: optional
	Depends: dkms (>= 2.1.0.0), kmod
	Recommends: linux-headers-amd64 | linux-headers-generic | linux-headers
	Description: kernel driver of Thole, message passing for clusters (DKMS)
	 Moves large messages between hosts while programs compute, and carries small
	 ones without CAP_NET_RAW. Thole works without it, too, and uses it where it
	 finds it: no peer has to have it.
END
printf '%s\n' /etc/udev/rules.d/60-thole.rules /etc/modprobe.d/thole.conf >"$root/DEBIAN/conffiles"
cat >"$root/DEBIAN/postinst" <<-END
	#!/bin/sh
	set -e
	if [ "\$1" = configure ]; then
		/usr/lib/dkms/common.postinst thole $version /usr/share/thole-dkms "" "\$2"
		if [ -d /run/udev ]; then udevadm control --reload || true; fi
		modprobe -q -r thole || true # modprobe is content with the one that is loaded, whatever was installed
		modprobe -q thole || true # not for the running kernel, or in a container
		if [ -e /sys/module/thole/srcversion ] && made=\$(modinfo -F srcversion thole 2>/dev/null) &&
			[ "\$made" != "\$(cat /sys/module/thole/srcversion)" ]; then
			echo "thole-dkms: the module that was loaded stays until its programs end, or a reboot;" \\
				"then: modprobe -r thole; modprobe thole" >&2
		fi
	fi
END
cat >"$root/DEBIAN/prerm" <<-END
	#!/bin/sh
	set -e
	case "\$1" in
	remove|upgrade|deconfigure)
		if [ "\$1" = remove ]; then modprobe -q -r thole || true; fi
		if [ -n "\$(dkms status -m thole -v $version)" ]; then
			dkms remove -m thole -v $version --all
		fi ;;
	esac
END
chmod 755 "$root/DEBIAN/postinst" "$root/DEBIAN/prerm"
dpkg-deb --root-owner-group --build "$root" "$out/thole-dkms_${version}_all.deb" >"$work/log" || {
	cat "$work/log" >&2
	exit 1
}
echo "$out/thole-dkms_${version}_all.deb"
