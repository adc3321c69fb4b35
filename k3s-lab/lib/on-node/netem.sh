#!/bin/sh
# netem.sh TIME ADDRESS...: delay packets from this node to the addresses by TIME.
# netem.sh off: remove the delay.
# K3s' tunnels connect nodes, so traffic between pods is delayed as well.
set -eu

#: handle of the lab's queueing discipline; other root handles, except the default 0:, are foreign
handle=d5

off() {
  for device in $(tc qdisc show | sed -n "s/^qdisc prio $handle: dev \([^ ]*\) root.*/\1/p"); do
    tc qdisc del dev "$device" root
  done
}

if [ "$1" = off ]; then
  off
  exit
fi

time=$1
shift
# Print the device that leads to an address.
device_of() { ip -o route get "$1" | sed -n 's/.* dev \([^ ]*\).*/\1/p'; }

devices=$(for address; do device_of "$address"; done | sort -u)
for device in $devices; do
  other=$(tc qdisc show dev "$device" root | awk -v ours="$handle:" '$3 != "0:" && $3 != ours')
  if [ -n "$other" ]; then
    echo "$device has a foreign queueing discipline: $other" >&2
    exit 1
  fi
done
off
for device in $devices; do
  # The fourth band is for the delayed addresses; the other bands are the kernel's default.
  tc qdisc add dev "$device" root handle "$handle:" prio bands 4 \
    priomap 1 2 2 2 1 2 0 0 1 1 1 1 1 1 1 1
  tc qdisc add dev "$device" parent "$handle:4" netem delay "$time" limit 10000 || {
    echo "no delay without the kernel module sch_netem" >&2
    exit 1
  }
done
for address; do
  tc filter add dev "$(device_of "$address")" parent "$handle:" protocol ip u32 \
    match ip dst "$address/32" flowid "$handle:4"
done
