# shellcheck shell=bash
# Settings, from environment variables.
# shellcheck disable=SC2034 # used by the other files

# State directory: journal, kubeconfig, and reports.
STATE=${LAB_STATE:-${XDG_STATE_HOME:-$HOME/.local/state}/kubedsm-lab}
NODES=${LAB_NODES:-$HERE/nodes}
CLUSTER=${LAB_CLUSTER:-kubedsm-lab}
# Kubeconfig of your own cluster; by default of the one that `up` creates.
KUBECONFIG_OF_LAB=${LAB_KUBECONFIG:-$STATE/kubeconfig}
# Labels of nodes with their tier, and of edge nodes with their site: kube-proxy's zone.
TIER_LABEL=kubedsm.io/tier
SITE_LABEL=topology.kubernetes.io/zone
# An image with a / in its name is pulled by the nodes; others are imported.
IMAGE=${LAB_IMAGE:-kubedsm:0.1.0}
K3S_VERSION=${LAB_K3S_VERSION:-v1.33.1+k3s1}
K3S_INSTALLER=${LAB_K3S_INSTALLER:-$STATE/install-k3s.sh}
# Image with sh, ip and tc, for nodes that are containers.
NETSHOOT=${LAB_NETSHOOT:-nicolaka/netshoot:v0.13}
REPORTS=${LAB_REPORTS:-$STATE/reports}
