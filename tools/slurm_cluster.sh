#!/usr/bin/env bash
# A Slurm cluster of three simulated nodes on this machine, to try profiles/slurm on.
#
#   eval "$(tools/slurm_cluster.sh up FOLDER)"  start munged, slurmctld and a slurmd for each of n1, n2, n3, and
#                                               print the clients' environment
#   tools/slurm_cluster.sh fail FOLDER NODE     kill the node with all that runs on it
#   tools/slurm_cluster.sh start FOLDER NODE    start it again
#   tools/slurm_cluster.sh down FOLDER          end all of it
#
# The daemons are Debian's (apt install slurm-wlm munge) and run as the user, without systemd, cgroups or accounting;
# every state and log is in FOLDER. n1 and n2 have a GPU of one kind, n3 of another kind. The device is a plain file,
# so that Slurm counts and deals what no program can use.
set -euo pipefail

do=${1:?up, fail, start or down} folder=$(realpath -m "${2:?a folder}") node=${3:-}
export SLURM_CONF=$folder/slurm.conf
NODES="n1 n2 n3"

port() { python3 -c 'import socket; s = socket.socket(); s.bind(("", 0)); print(s.getsockname()[1])'; }

configure() {
    local cpus memory
    cpus=$(nproc) memory=$(awk '/MemTotal/ {print int($2 / 1024)}' /proc/meminfo)
    touch "$folder/gpu0"
    cat > "$folder/slurm.conf" << END
ClusterName=simulated
SlurmctldHost=$(hostname)(127.0.0.1)
SlurmctldPort=$(port)
SlurmUser=$(id -un)
SlurmdUser=$(id -un)
AuthType=auth/munge
# A job of a dead node may begin again once its credential has expired, by default in 120 s.
AuthInfo=socket=$folder/munge.socket,cred_expire=5
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool/%n
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/%n.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0,sched_interval=2,bf_interval=2
SlurmdTimeout=10
KillWait=2
ReturnToService=2
MinJobAge=600
GresTypes=gpu
PartitionName=all Nodes=n[1-3] Default=YES MaxTime=INFINITE State=UP
END
    local feature
    for name in $NODES; do
        feature=first
        [ "$name" = n3 ] && feature=second
        echo "NodeName=$name NodeAddr=127.0.0.1 Port=$(port) CPUs=$cpus RealMemory=$memory" \
            "Feature=$feature Gres=gpu:$feature:1" >> "$folder/slurm.conf"
        echo "NodeName=$name Name=gpu Type=$feature File=$folder/gpu0" >> "$folder/gres.conf"
        mkdir -p "$folder/spool/$name"
    done
}

# Snakemake's executor starts srun without SLURM_CONF, so this wrapper sets it.
clients() {
    mkdir -p "$folder/bin"
    printf '#!/bin/sh\nSLURM_CONF=%q exec %q "$@"\n' "$SLURM_CONF" "$(command -v srun)" > "$folder/bin/srun"
    chmod +x "$folder/bin/srun"
    echo "export SLURM_CONF=$SLURM_CONF PATH=$folder/bin:\$PATH"
}

start() { slurmd -N "$1"; }

# The daemon of a node and the processes that guard its jobs have its log open. They die first, so that none of them
# reports to slurmctld. The jobs have the node's name and the cluster's file in their environment.
fail() {
    { find /proc/[0-9]*/fd -lname "$folder/$1.log" 2> /dev/null || true; } | cut -d/ -f3 | sort -u |
        xargs -r kill -9
    { grep -lzsx "SLURMD_NODENAME=$1" /proc/[0-9]*/environ || true; } |
        { xargs -r grep -lzsx "SLURM_CONF=$SLURM_CONF" || true; } | cut -d/ -f3 | xargs -r kill -9
}

case $do in
up)
    [ ! -e "$folder/slurm.conf" ] || { echo "$folder already has a cluster. Give a new folder" >&2 && exit 2; }
    mkdir -p "$folder/state"
    configure
    clients
    head -c 1024 /dev/urandom > "$folder/munge.key"
    chmod 600 "$folder/munge.key"
    munged --force --key-file="$folder/munge.key" --socket="$folder/munge.socket" \
        --pid-file="$folder/munged.pid" --log-file="$folder/munged.log" --seed-file="$folder/munge.seed"
    slurmctld
    for name in $NODES; do start "$name"; done
    for _ in $(seq 60); do
        [ "$(sinfo -h -t idle -N 2> /dev/null | wc -l)" = 3 ] && exit 0
        sleep 0.5
    done
    echo "The nodes did not come up; see $folder/*.log" >&2
    exit 1
    ;;
fail) fail "${node:?a node}" ;;
start) start "${node:?a node}" ;;
down)
    scancel --user "$(id -un)" 2> /dev/null || true
    for name in $NODES; do fail "$name"; done
    for daemon in slurmctld munged; do
        [ -s "$folder/$daemon.pid" ] && kill "$(cat "$folder/$daemon.pid")" || true
    done
    ;;
*)
    sed -n '2,/^set/{/^#/p}' "$0" >&2
    exit 2
    ;;
esac
