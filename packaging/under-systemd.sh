#!/bin/bash
# The units of the package under a systemd that is process 1 of a trial's root: `packaging/try.sh` runs this there as a service. What
# comes out is in /trial.result, `ok` or what is wrong, and the journal of a trial that fails in /trial.log.
set -u

fails() { # WHAT
    echo "$1" >/trial.result
    journalctl --no-pager --lines=50 >/trial.log 2>&1
    systemctl exit 1
    exit 1
}

is() { [ "$(systemctl show --property="$2" --value "$1")" = "$3" ]; } # UNIT PROPERTY VALUE

process() { systemctl show --property=MainPID --value "$1"; } # UNIT

runs_anew() { is "$server" NRestarts "$1" && is "$server" SubState running; } # TIMES

# Until a command succeeds, within 30 s.
until_true() { # WHAT COMMAND...
    local what=$1 turns=0
    shift
    until "$@"; do
        [ $((turns += 1)) -le 300 ] || fails "$what"
        sleep 0.1
    done
}

# A client connects, waits for the greeting and has to get it.
greets() {
    [ NBDMAGIC = "$(python3 -c '
import socket
client = socket.socket(socket.AF_UNIX)
client.settimeout(30)
client.connect("/run/ioweir/example.sock")
print(client.recv(8).decode())')" ]
}

# Starting a server returns when it has said that it is ready.
server=ioweir@example.service
mkdir -p "/run/systemd/system/$server.d"
printf '[Service]\nWatchdogSec=3\n' >"/run/systemd/system/$server.d/trial.conf"
systemctl daemon-reload
systemctl start ioweir@example.socket "$server" || fails "the unit of the server does not start"
is "$server" SubState running || fails "the server does not run"
greets || fails "the server greets nobody on the socket that systemd holds"
first=$(process "$server")
for line in 'CapEff:.*0000000000000000' 'NoNewPrivs:.*1' 'Seccomp:.*2'; do
    grep -q "^$line" "/proc/$first/status" || fails "the server is not confined: no $line in its status"
done
ioweir ctl /etc/ioweir/example.toml state --json - | grep -q '"schema_version"' || fails "root cannot ask the server for its state"
systemctl reload "$server" || fails "the server does not read its file again"
[ "$(process "$server")" = "$first" ] || fails "reading the file again takes another process"

# A client that comes while the server is dead waits until there is another one.
kill -KILL "$first"
greets || fails "a client that comes after kill -9 is not served"
until_true "a server that was killed is not started again" runs_anew 1
# The watchdog finds one that hangs.
kill -STOP "$(process "$server")"
until_true "a server that hangs is not started again" runs_anew 2
greets || fails "a client that comes after a hang is not served"
systemctl stop ioweir@example.socket "$server" || fails "the server does not stop"
is "$server" Result success || fails "a server that is stopped does not end well"

# A governor runs a unit whose work is due. Without the governor the unit is frozen; the next one thaws it.
governor=ioweir-govern@unit.service
printf '[Service]\nExecStart=/bin/sleep infinity\n' >/run/systemd/system/backup.service
systemctl daemon-reload
disk=$(awk '$2 == 0 { print $3; exit }' /proc/diskstats)
sed "s/\"sda\"/\"$disk\"/; s/\"100GiB\"/\"100TiB\"/; s/^deadline = .*/deadline = \"10m\"/" \
    /usr/share/doc/ioweir/examples/govern/unit.toml >/etc/ioweir/unit.toml
systemctl start "$governor" || fails "the unit of the governor does not start"
until_true "the governor does not start a unit whose work is due" is backup.service SubState running
kill -KILL "$(process "$governor")"
until_true "a unit is not frozen when its governor is gone" is backup.service FreezerState frozen
until_true "a governor that was killed is not started again" is "$governor" SubState running
until_true "the next governor does not thaw its unit" is backup.service FreezerState running
systemctl stop "$governor" || fails "the governor does not stop"
until_true "a unit is not frozen when its governor has stopped" is backup.service FreezerState frozen
rm /etc/ioweir/unit.toml
echo ok >/trial.result
systemctl exit 0
