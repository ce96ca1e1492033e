#!/usr/bin/env bash
# Jobs under Slurm: a cluster of three nodes, which are network namespaces, with the controller on the first. The scripts of the
# manual's pages are taken from docs/from-a-laptop-to-a-cluster.md as they stand, and run with shorter times.
#
# Needs root, as ci/hosts.sh does. Installs Slurm where it is missing; uses the build of ci/test.sh.
set -euo pipefail
source ci/workspace.sh
source ci/hosts.sh
if ! command -v slurmctld >/dev/null || ! command -v munged >/dev/null; then
  timeout 300 apt-get update -qq
  DEBIAN_FRONTEND=noninteractive timeout 600 apt-get install -y -qq --no-install-recommends slurm-wlm slurm-client munge >/dev/null
fi
hosts_try
build_workspace >/dev/null
# Each node has a /tmp of its own, so that what they share lies elsewhere.
dir=$(mktemp -d -p /var/tmp)
# Nodes share the processors, and Slurm starts each node's tasks in a session of their own. With a group for each session, Linux 6.18 let
# the tasks of one node run alone for a minute.
groups=/proc/sys/kernel/sched_autogroup_enabled
had_groups=$(cat "$groups" 2>/dev/null || true)
down() {
  [ -z "$had_groups" ] || echo "$had_groups" >"$groups" || true
  pkill -9 -F "$dir/slurmctld.pid" 2>/dev/null || true
  hosts_down
  pkill -9 -F "$dir/munged.pid" 2>/dev/null || true
  rm -rf "$dir"
}
trap down EXIT
fail() {
  printf 'slurm: %s\n' "$1" >&2
  tail -n 40 "$dir"/log "$dir"/slurmctld.log "$dir"/*.out >&2 2>/dev/null || true
  exit 1
}
# on NODE COMMAND...
on() {
  local host=$hosts_name-$1
  shift
  ip netns exec "$host" unshare --uts --mount sh -c \
    'hostname "$1"; mkdir -p "$0/tmp-$1"; mount --bind "$0/tmp-$1" /tmp; shift; exec "$@"' "$dir" "$host" "$@"
}

[ -z "$had_groups" ] || echo 0 >"$groups" || true
hosts_up 3
mkdir -p "$dir/state" "$dir/munge" "$dir/scratch" "$dir/bin"
head -c 1024 /dev/urandom >"$dir/munge/key"
chmod 700 "$dir/munge" && chmod 600 "$dir/munge/key" && chmod 755 "$dir"
munged --force --key-file="$dir/munge/key" --socket="$dir/munged.socket" --pid-file="$dir/munged.pid" --log-file="$dir/munged.log" \
  --seed-file="$dir/munge/seed" 2>"$dir/log" || fail 'munged does not start'
# Slurm looks at what is free; these nodes share one machine's processors. A job that is queued again waits for as long as a
# credential is valid, so that it is not taken for the one before.
{
  cat <<CONF
ClusterName=fascicle
SlurmctldHost=$hosts_name-1($hosts_net.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$dir/munged.socket,cred_expire=5
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool-%n
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd-%n.pid
SlurmctldLogFile=$dir/slurmctld.log
SlurmdLogFile=$dir/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=pmix
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
ReturnToService=2
SlurmdTimeout=10
KillWait=10
CONF
  for host in 1 2 3; do
    printf 'NodeName=%s NodeAddr=%s CPUs=4 RealMemory=1000\n' "$hosts_name-$host" "$hosts_net.$host"
  done
  printf 'PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n'
} >"$dir/slurm.conf"
echo 'CgroupPlugin=cgroup/v1' >"$dir/cgroup.conf"
export SLURM_CONF=$dir/slurm.conf SCRATCH=$dir/scratch
export OMPI_MCA_btl=tcp,vader,self OMPI_MCA_btl_tcp_if_include=$hosts_net.0/24 FASCICLE_MPI_LONGEST_MESSAGE=60000
on 1 slurmctld
for host in 1 2 3; do on "$host" slurmd; done
for _ in $(seq 100); do [ "$(on 1 sinfo -h -t idle -o %D 2>/dev/null)" = 3 ] && break || sleep 0.2; done
[ "$(on 1 sinfo -h -t idle -o %D)" = 3 ] || fail 'not three idle nodes'

ln -s "$fascicle" "$dir/bin/fascicle"
export PATH=$dir/bin:$PATH
cd "$dir"
for _ in $(seq 400); do echo 'the quick brown fox jumps over the lazy dog'; done >text.txt
# configuration STEPS: of a run that saves a checkpoint every ten steps, on a grid of as many ranks as are started.
configuration() {
  cat >config.toml <<TOML
data = { path = "$dir/text.txt", tokenizer = "bytes" }
model = { hidden = 64, layers = 2, heads = 2, context = 16 }
training = { batch = 4, steps = $1, checkpoint_every = 10, validation_batches = 1 }
TOML
}
# block HEADING N prints the N-th script below a heading of the manual, with `--ranks-per-host 4` and `--ntasks-per-node=4` as 2.
manual=$OLDPWD/docs/from-a-laptop-to-a-cluster.md
block() {
  awk -v heading="## $1" -v wanted="$2" '
    /^## / { inside = $0 == heading }
    /^```/ { if (inside && !within && $0 == "```sh") found++; within = !within; next }
    inside && within && found == wanted' "$manual" | sed 's/ranks-per-host 4/ranks-per-host 2/; s/ntasks-per-node=4/ntasks-per-node=2/'
}
rows() { [ "$(grep -oE '"step":[0-9]+' "$1/metrics.jsonl")" = "$(seq -f '"step":%.0f' "$2")" ]; }
alone() { rm -rf "$dir/alone"; fascicle train config.toml --grid x=1 --out "$dir/alone" >"$dir/log" 2>&1 || fail 'does not train alone'; }
digest() { fascicle checkpoint digest "$1" 2>/dev/null; }
same_as_alone() { [ -n "$(digest "$dir/alone")" ] && [ "$(digest "$1")" = "$(digest "$dir/alone")" ]; }
# until_it FAULT COMMAND...: waits until the command succeeds, for two minutes.
until_it() {
  local what=$1
  shift
  for _ in $(seq 600); do "$@" && return || sleep 0.2; done
  fail "$what"
}
saved() { compgen -G "$1/checkpoints/step-????????" >/dev/null; }
over() { [ -z "$(on 1 squeue -h)" ]; }
said() { grep -qE -- "$1" "$dir"/*.out; }

# Ranks that srun starts compute what one rank computes.
configuration 20
alone
on 1 timeout 120 srun --nodes=3 --ntasks-per-node=2 fascicle train config.toml --grid x=2,data=3 --batch 6 --out "$dir/six" >"$dir/log" 2>&1 ||
  fail "srun: status $?"
grep -q '6 ranks on 3 hosts' "$dir/log" || fail 'the report does not count three hosts'
on 1 timeout 120 srun --nodes=2 --ntasks-per-node=2 fascicle train config.toml --grid x=2,z=2 --out "$dir/four" >"$dir/log" 2>&1 ||
  fail "srun: status $?"
same_as_alone "$dir/four" || fail 'srun: other weights than on one rank'
on 1 timeout 120 srun --nodes=3 --ntasks-per-node=1 fascicle doctor --nodes --within 0.05 >"$dir/log" 2>&1 || fail 'doctor --nodes'
printf 'slurm: ranks that srun starts have the weights of one rank\n'

# A rank that is killed ends its job, with a report that names it.
configuration 1000000
status=0
on 1 timeout 120 srun --nodes=2 --ntasks-per-node=2 --kill-on-bad-exit=1 fascicle train config.toml --grid x=2,z=2 --out "$dir/killed" \
  >"$dir/log" 2>&1 &
job=$!
until_it 'no checkpoint of a job' saved "$dir/killed"
victim=
for process in $(ip netns pids "$hosts_name-2"); do
  if tr '\0' ' ' <"/proc/$process/cmdline" | grep -qE '^[^ ]*fascicle train '; then victim=$process; fi
done
[ -n "$victim" ] || fail 'no rank on the second node'
kill -9 "$victim"
wait "$job" || status=$?
[ "$status" -eq 1 ] || fail "a killed rank: status $status, needs 1"
grep -qE 'rank [23] failed: its process [0-9]+ on .* has died' "$dir/log" || fail 'a killed rank is not named'
until_it 'a killed rank: its job goes on' over
printf 'slurm: a killed rank is named, and its job ends\n'

# A signal, as Slurm sends it before a job's end, saves a checkpoint, and the script queues the job again until the run is complete.
block 'Jobs longer than the queue allows' 1 >queue.sh
configuration 400
alone
on 1 sbatch --output="$dir/queue.out" queue.sh >"$dir/log" 2>&1 || fail 'sbatch'
until_it 'no checkpoint of a queued job' saved "$SCRATCH/run"
on 1 scancel --signal=USR1 "$(on 1 squeue -h -o %i)" || fail 'scancel'
until_it 'a job was not stopped' said 'stopped after step'
until_it 'a job was not queued again' said '^steps +[0-9]+ to 400, resumed'
until_it 'a queued run does not end' over
rows "$SCRATCH/run" 400 || fail 'a queued run: not every step once'
same_as_alone "$SCRATCH/run" || fail 'a queued run: other weights than in one piece'
printf 'slurm: a job that was signalled and queued again has the weights of one run\n'
rm -rf "$SCRATCH/run"

# A supervised run in a job that loses a node goes on without it, and a signal to the job's steps saves a checkpoint.
block 'Supervised runs' 2 >supervised.sh
configuration 400
alone
on 1 sbatch --nodes=3 --time=5 --output="$dir/supervised.out" supervised.sh >"$dir/log" 2>&1 || fail 'sbatch'
until_it 'no checkpoint of a supervised job' saved "$SCRATCH/run"
ip -n "$hosts_name-3" link set net down
until_it 'a lost node is not left out' said "supervise: $hosts_name-3 is left out"
until_it 'a supervised job does not go on' said '4 ranks on 2 hosts'
until_it 'a supervised job does not end' over
rows "$SCRATCH/run" 400 || fail 'a supervised job: not every step once'
same_as_alone "$SCRATCH/run" || fail 'a supervised job: other weights than without a fault'
rm -rf "$SCRATCH/run"
configuration 1000000
on 1 sbatch --nodes=2 --time=5 --output="$dir/signalled.out" supervised.sh >"$dir/log" 2>&1 || fail 'sbatch'
until_it 'no checkpoint of a supervised job' saved "$SCRATCH/run"
on 1 scancel --signal=USR1 "$(on 1 squeue -h -o %i)" || fail 'scancel'
until_it 'a signalled job does not end' over
last=$(tail -n 1 "$SCRATCH/run/metrics.jsonl" | grep -oE '"step":[0-9]+' | grep -oE '[0-9]+')
[ -e "$SCRATCH/run/checkpoints/step-$(printf %08d "$last")" ] || fail "a signalled job: no checkpoint of step $last"
printf 'slurm: a supervised job lost a node, with the weights of one that lost nothing; a signal saved step %s\n' "$last"
