#!/bin/sh
# A driver in shell: it offers each PCI function 1d55:1000 whole, in the dictionary of the agent-driver API.
# Its argument is the verb; what it is asked for is JSON on standard input, which discover needs nothing of.
bus=/sys/bus/pci/devices
[ "$1" = discover ] || { echo "$1 is not supported" >&2; exit 1; }
[ -d "$bus" ] || { echo "no PCI bus" >&2; exit 3; }
printf '{"rocky": {'
comma=
for device in "$bus"/*; do
  [ -r "$device/vendor" ] || continue
  read -r vendor <"$device/vendor" && read -r product <"$device/device" || exit 3
  [ "$vendor:$product" = 0x1d55:0x1000 ] || continue
  printf '%s"%s": {"type": "AICHIP", "vendor": "acme", "product": "NPU"}' "$comma" "${device##*/}"
  comma=', '
done
echo '}}'
