#!/usr/bin/env bash
# Several hosts on one machine, for checks that source this file: network namespaces, joined by a bridge, each with
# its own host name, by which MPI distinguishes hosts. They share processors, memory and files. Needs root and
# iproute2.
set -euo pipefail
for tool in ip tc sysctl pgrep hostname unshare; do
  command -v "$tool" >/dev/null && continue
  timeout 300 apt-get update -qq
  DEBIAN_FRONTEND=noninteractive timeout 300 apt-get install -y -qq iproute2 procps hostname util-linux >/dev/null
  break
done
# Interface names have at most 15 characters, and two runs of a check must not collide.
hosts_name=fc$(($$ % 10000))
hosts_net=10.$((64 + $$ % 64)).$(($$ / 64 % 256))
hosts_agent=$(mktemp)

# hosts_try: whether this container allows the creation of hosts. If not, it reports this and ends the check, as a
# failure if FASCICLE_REQUIRE names `hosts`.
hosts_try() {
  local name=$hosts_name-0 reason
  reason=$({ ip netns add "$name" && ip link add "$name-v" type veth peer name net netns "$name" &&
    ip link add "$name-b" type bridge && ip netns exec "$name" sysctl -qw net.ipv4.tcp_retries2=3 &&
    unshare --uts hostname "$name"; } 2>&1 >/dev/null) || {
    hosts_down
    printf 'hosts: not checked, since network namespaces cannot be made here (%s); needs root with CAP_NET_ADMIN and CAP_SYS_ADMIN\n' \
      "$(head -n 1 <<<"$reason")" >&2
    case ,${FASCICLE_REQUIRE:-}, in *,hosts,*) exit 1 ;; *) exit 0 ;; esac
  }
  ip link del "$name-b"
  ip netns del "$name"
}

# hosts_up COUNT: host I is $hosts_name-I, and its end of the network is its interface `net`.
hosts_up() {
  ip link add "$hosts_name-br" type bridge
  ip link set "$hosts_name-br" up
  for host in $(seq "$1"); do
    local name=$hosts_name-$host
    ip netns add "$name"
    ip link add "$name-v" type veth peer name net netns "$name"
    ip link set "$name-v" master "$hosts_name-br" up
    ip -n "$name" addr add "$hosts_net.$host/24" dev net
    ip -n "$name" link set net up
    ip -n "$name" link set lo up
    # A connection over a cut link is abandoned within seconds; the system's default is a quarter of an hour.
    ip netns exec "$name" sysctl -qw net.ipv4.tcp_retries2=3
  done
  # The command with which mpirun starts its helpers on other hosts, instead of ssh: the address, then the command.
  cat >"$hosts_agent" <<AGENT
#!/bin/sh
host=$hosts_name-\${1##*.}
shift
exec ip netns exec "\$host" unshare --uts sh -c "hostname \$host; \$*"
AGENT
  chmod +x "$hosts_agent"
}

hosts_names() { ip netns list 2>/dev/null | grep -oE "^$hosts_name-[0-9]+" || true; }

hosts_down() {
  # This also ends processes that a cut link kept alive.
  for host in $(hosts_names); do
    ip netns pids "$host" | xargs -r kill -KILL || true
    # A namespace outlives its name while one of its connections ends, but its cable need not.
    ip link del "$host-v" || true
    ip netns del "$host" || true
  done
  for link in br 0-b; do ip link del "$hosts_name-$link" 2>/dev/null || true; done
  rm -f "$hosts_agent"
}

# hosts_slow RATE: limits the outgoing rate of each host.
hosts_slow() {
  for host in $(hosts_names); do
    ip netns exec "$host" tc qdisc replace dev net root tbf rate "$1" burst 32kb latency 2s
  done
}

# What comes before the program when mpirun starts it on hosts: over TCP, Open MPI asks before it sends more than 64 KiB, and
# the two directions of a link take turns.
hosts_mpirun() {
  launch=(mpirun --mca plm_rsh_agent "$hosts_agent" --mca btl tcp,vader,self --mca btl_tcp_if_include "$hosts_net.0/24"
    --mca oob_tcp_if_include "$hosts_net.0/24" --mca oob_tcp_keepalive_time 5 --mca oob_tcp_keepalive_intvl 1
    --mca oob_tcp_keepalive_probes 3 --host "$1" -n "$2" -x FASCICLE_MPI_LONGEST_MESSAGE=60000)
}

# hosts_first COMMAND...: on the first host.
hosts_first() {
  ip netns exec "$hosts_name-1" unshare --uts sh -c 'hostname "$0"; exec "$@"' "$hosts_name-1" \
    timeout --kill-after=10 "${hosts_timeout:-120}" "$@"
}

# hosts_run HOSTS RANKS_PER_HOST COMMAND...: mpirun on the first host.
hosts_run() {
  local hosts=$1 ranks=$2 list=$hosts_name-1:$2 launch
  shift 2
  for host in $(seq 2 "$hosts"); do list+=,$hosts_net.$host:$ranks; done
  hosts_mpirun "$list" $((hosts * ranks))
  hosts_first "${launch[@]}" "$@"
}
