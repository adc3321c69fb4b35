"""Scripts of k3s-lab, with stand-ins for the programs that they call."""

import subprocess
from pathlib import Path

import attrs
import yaml

from support.manifests import ROOT

LAB = ROOT / "k3s-lab"
SCRIPTS = sorted([LAB / "lab", *LAB.rglob("*.sh")])

#: Each notes its call, with the machine or container on which it was called, and fails if the test
#: has it do so.
_NOTED = """name=${0##*/}
echo "${STANDS_ON:+$STANDS_ON: }$name $*" >>"$WORLD/calls"
[[ -z $FAILS || "$name $*" != *$FAILS* ]] || { echo "$name was told to fail" >&2; exit 1; }
"""
_STAND_INS = {
    # Over there, all else stands in, too.
    "ssh": """
while [[ $1 == -o ]]; do shift 2; done
target=$1 command=${*:2}
STANDS_ON=$target bash -c "${command//\\/usr\\/local\\/bin/$WORLD/$target}"
""",
    "docker": """
case $1 in
  info) echo 8 16000000000 ;;
  save) echo an image ;;
  run) STANDS_ON=$(sed 's/.*container:\\([^ ]*\\).*/\\1/' <<<"$*") \\
    sh -s - $(sed 's/.*sh -s - //' <<<"$*") ;;
esac
""",
    "k3d": """
case "$1 $2" in
  'cluster list') [[ -e $WORLD/k3d-$3 ]] ;;
  'cluster create') touch "$WORLD/k3d-$3" ;;
  'cluster delete') rm -f "$WORLD/k3d-$3" ;;
  'kubeconfig get') echo 'server: https://127.0.0.1:6443' ;;
esac
""",
    "k3s": "cat >/dev/null\n",
    "kubectl": """
case "$*" in
  *'get namespace '*) [[ -e $WORLD/namespace-${!#} ]] ;;
  *'get nodes -l '*) cat "$WORLD/labelled" ;;
  *'get node '*labels.topology*) [[ ! -e $WORLD/site-$5 ]] || cat "$WORLD/site-$5" ;;
  *'get node '*metadata.labels*) [[ ! -e $WORLD/tier-$5 ]] || cat "$WORLD/tier-$5" ;;
  *'get node '*--ignore-not-found*) echo "node/$5" ;;
  *'get node '*ExternalIP*) ;;
  *'get node '*) echo 10.0.0.2 ;;
  *' label --overwrite node '*=*) [[ -z ${LAB_KUBECONFIG:-} ]] ||
    if [[ $7 == topology* ]]; then echo "${7#*=}" >"$WORLD/site-$6"
    else echo "${7#*=}" >"$WORLD/tier-$6"; fi ;;
  *' label node '*) if [[ $6 == topology* ]]; then rm "$WORLD/site-$5"
    else rm "$WORLD/tier-$5"; fi ;;
  *'get service '*) echo $((30181 + $(printf %d "'$7") - $(printf %d "'a"))) ;;
  *'get lease '*) echo kubedsm-1_8f2a ;;
  *' port-forward '*) exec sleep 60 ;;
  *' apply '* | *' delete '*) cat >/dev/null ;;
esac
""",
    "tc": """
case "$*" in
  'qdisc show') [[ ! -e $WORLD/late-$STANDS_ON ]] ||
    sed 's/.*/qdisc prio d5: dev & root refcnt 2/' "$WORLD/late-$STANDS_ON" ;;
  'qdisc show dev '*' root') if [[ -e $WORLD/root-$STANDS_ON ]]; then echo 'qdisc tbf 8001: root'
    elif [[ -e $WORLD/late-$STANDS_ON ]]; then echo 'qdisc prio d5: root'
    else echo 'qdisc mq 0: root'; fi ;;
  'qdisc add dev eth'*' root '*) echo "$4" >>"$WORLD/late-$STANDS_ON" ;;
  'qdisc del '*) rm -f "$WORLD/late-$STANDS_ON" ;;
esac
""",
    # A recorder that takes a while to begin.
    "kubedsm": """
[[ $1 == record ]] || exit 0
sleep 0.5
echo recording >>"$WORLD/calls"
echo 'kubedsm: recording a in namespace lab' >&2
""",
    # Load lasts until the port-forward beside it has begun, however busy the machine is.
    "loadgen": """
for _ in {1..600}; do
  [[ $1 == run ]] && ! grep -q port-forward "$WORLD/calls" || break
  sleep 0.05
done
""",
}
#: of a machine; nobody wants to know of their calls
_QUIET = {
    "sudo": 'shift; exec "$@"\n',
    "id": "echo 1000\n",
    "python3": """
case "$*" in
  *matplotlib*) [[ $FAILS != matplotlib ]] ;;
  *) exec /usr/bin/python3 "$@" ;;
esac
""",
    "hostname": "echo 10.0.0.1 fd00::1\n",
    "which": "[[ $1 != k3s || -e $WORLD/$STANDS_ON ]]\n",
    # Each network of addresses has its device.
    "ip": "echo $4 | sed 's/.*[.]\\([0-9]*\\)[.][0-9]*$/& dev eth\\1 src 10.0.0.5 uid 0/'\n",
    "modprobe": "[[ ${!#} != sch_netem || ! -e $WORLD/without-netem-$STANDS_ON ]]\n",
    "cat": """
case $1 in
  /proc/cpuinfo) printf 'processor : %s\\n' 0 1 2 3 4 5 6 7; echo 'MemTotal: 15625000 kB' ;;
  /etc/rancher/k3s/k3s.yaml) echo 'server: https://127.0.0.1:6443' ;;
  *) exec /bin/cat "$@" ;;
esac
""",
}
#: leaves behind what K3s' own one does: the way to be rid of it
_INSTALLER = """
echo "$STANDS_ON: installs $INSTALL_K3S_VERSION $*" >>"$WORLD/calls"
case "$STANDS_ON: $*" in *"${FAILS:-nothing}"*) exit 1 ;; esac
mkdir -p "$WORLD/$STANDS_ON"
case $1 in server) of=k3s-uninstall.sh ;; agent) of=k3s-agent-uninstall.sh ;; esac
cat >"$WORLD/$STANDS_ON/$of" <<END
#!/bin/sh
echo "$STANDS_ON: uninstalls" >>$WORLD/calls
rm -r $WORLD/$STANDS_ON
END
chmod +x "$WORLD/$STANDS_ON/$of"
"""


@attrs.frozen
class Lab:
    """Command line `lab` with a home, state and stand-in programs below `path`."""

    path: Path
    env: dict[str, str]

    def __call__(self, *arguments, fails=""):
        return subprocess.run(
            [LAB / "lab", *arguments],
            env=self.env | {"FAILS": fails},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def begin(self, *arguments):
        return subprocess.Popen(
            [LAB / "lab", *arguments], env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    def stand_in(self, name, text):
        program = self.path / "bin" / name
        program.write_text("#!/bin/bash\n" + text)
        program.chmod(0o755)

    def calls(self):
        """Return the calls of stand-in programs since the last time."""
        noted = self.path / "calls"
        said = noted.read_text().splitlines() if noted.exists() else []
        noted.write_text("")
        return said

    def journal(self):
        noted = self.path / "state" / "made"
        return noted.read_text().splitlines() if noted.exists() else []

    def there(self):
        """Return what the stand-in programs have created and not removed."""
        return {p.name for p in self.path.iterdir()} - {"bin", "calls", "state", "home", "nodes"}


def lab(path, nodes, without=()):
    """Return a lab with a table of nodes, and stand-ins for all programs except `without`."""
    scripts = {n: _NOTED + text for n, text in _STAND_INS.items()}
    scripts |= _QUIET
    (path / "bin").mkdir(parents=True)
    (path / "nodes").write_text(nodes)
    (path / "state").mkdir()
    (path / "state" / "install-k3s.sh").write_text(_INSTALLER)
    made = Lab(
        path,
        {
            "PATH": f"{path / 'bin'}:/usr/bin:/bin",
            "HOME": str(path / "home"),
            "WORLD": str(path),
            "LAB_STATE": str(path / "state"),
            "LAB_NODES": str(path / "nodes"),
        },
    )
    for name, text in scripts.items():
        if name not in without:
            made.stand_in(name, text)
    return made


def ok(done):
    assert done.returncode == 0, done.stderr
    return done


def services(scheduler, sites=""):
    """Return the manifests of the lab's services, with edge nodes at the sites."""
    load = f"for part in {LAB}/lib/*.sh; do . $part; done; SITES=({sites})"
    load += f"; rendered services {scheduler}"
    text = subprocess.check_output(
        ["/bin/bash", "-c", load], env={"HERE": str(LAB), "HOME": "/"}, text=True
    )
    return list(yaml.safe_load_all(text))


def nodes(table):
    """Return name, tier, millicores and MB of each node in a table; a server has no amounts."""
    lines = (line.split() for line in (LAB / table).read_text().splitlines() if line[0] != "#")
    return [
        (name, tier, *(int(amount) for amount in (cpu, memory) if amount != "-"))
        for name, tier, cpu, memory, *_ in lines
    ]
