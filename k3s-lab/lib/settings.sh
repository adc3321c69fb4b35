# shellcheck shell=bash
# What can be set from outside.
# shellcheck disable=SC2034 # the other parts use it

# The lab's own memory: what it made, how to reach it, and its reports.
STATE=${LAB_STATE:-${XDG_STATE_HOME:-$HOME/.local/state}/kubedsm-lab}
NODES=${LAB_NODES:-$HERE/nodes}
CLUSTER=${LAB_CLUSTER:-kubedsm-lab}
# A cluster of one's own; else the one that `up` makes.
KUBECONFIG_OF_LAB=${LAB_KUBECONFIG:-$STATE/kubeconfig}
# With a / in it the nodes pull it; else it is brought to them.
IMAGE=${LAB_IMAGE:-kubedsm:0.1.0}
K3S_VERSION=${LAB_K3S_VERSION:-v1.33.1+k3s1}
K3S_INSTALLER=${LAB_K3S_INSTALLER:-$STATE/install-k3s.sh}
# Has sh, ip and tc, for nodes that are containers.
NETSHOOT=${LAB_NETSHOOT:-nicolaka/netshoot:v0.13}
REPORTS=${LAB_REPORTS:-$STATE/reports}
