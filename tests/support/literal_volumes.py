"""VolumeBinding as kube-scheduler runs it: one node at a time, with caches of assumed objects.

After k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumebinding/binder.go, FindPodVolumes and
AssumePodVolumes, and k8s.io/component-helpers/storage/volume, FindMatchingVolume.
"""

import attrs

from kubedsm.model.selectors import selects
from kubedsm.model.surroundings import (
    Claim,
    CSIDriver,
    CSINode,
    StorageCapacity,
    StorageClass,
    Surroundings,
    Volume,
)
from support.literal_rules import any_selects

CSI, LOCAL, STATIC = "csi.example.com", "local-path", "static"
CLASSES = (
    StorageClass(STATIC, waits_for_consumer=True, provisioner="kubernetes.io/no-provisioner"),
    StorageClass(LOCAL, waits_for_consumer=True, provisioner="rancher.io/local-path"),
    StorageClass(CSI, waits_for_consumer=True, provisioner=CSI),
)


def knowing(*things):
    """Return surroundings with the storage classes and the given objects, of every storage kind."""
    known = Surroundings()
    for kind in (Claim, Volume, StorageClass, CSIDriver, StorageCapacity, CSINode):
        known = known.with_kind(kind)
    for thing in (*CLASSES, *things):
        known = known.with_object(thing)
    return known


@attrs.define
class Binder:
    """The binder of kube-scheduler, with its assumed volumes and claims."""

    surroundings: object
    nodes: dict
    #: assumed claims with their nodes, whose storage counts here, unlike in kube-scheduler
    charged: list = attrs.field(factory=list)

    def feasible(self, pod):
        return sorted(name for name in self.nodes if self._find(pod, name) is not None)

    def assume(self, pod, name):
        for claim, volume in self._find(pod, name):
            if volume is None:
                if all(other.key != claim.key for other, _ in self.charged):
                    self.charged.append((claim, name))
                self._set(attrs.evolve(claim, selected_node=name))
            else:
                self._set(attrs.evolve(volume, claim=(*claim.key, claim.uid)))

    def _set(self, thing):
        self.surroundings = self.surroundings.with_object(thing)

    def _find(self, pod, name):
        """Return the pod's unbound claims with their volumes on the node; None if refused."""
        node, chosen, found = self.nodes[name], set(), []
        claims = [self.surroundings.claims[c.key] for c in pod.pod_class.rules.claims]
        for claim in sorted(claims, key=lambda c: (c.storage, c.namespace, c.name)):
            if claim.bound:
                volume = self.surroundings.volumes[claim.volume,]
                if not _reaches(volume, node):
                    return None
                continue
            if claim.selected_node not in ("", name):
                return None
            volume = None if claim.selected_node else self._match(claim, node, chosen)
            if volume is None and not self._provisions(claim, node):
                return None
            chosen.add(volume.name if volume else "")
            found.append((claim, volume))
        return found

    def _match(self, claim, node, chosen):
        smallest = None
        volumes = sorted(self.surroundings.of(Volume).values(), key=lambda v: v.name)
        for volume in volumes:
            if volume.name in chosen or (volume.claim and not volume.is_for(claim)):
                continue
            if volume.capacity < claim.storage or not set(claim.access_modes) <= set(
                volume.access_modes
            ):
                continue
            if volume.is_for(claim):
                return volume if _reaches(volume, node) else None
            if not volume.available or volume.storage_class != claim.storage_class:
                continue
            if _reaches(volume, node) and (smallest is None or volume.capacity < smallest.capacity):
                smallest = volume
        return smallest

    def _provisions(self, claim, node):
        of = self.surroundings.of(StorageClass)[claim.storage_class,]
        # Unlike kube-scheduler: no second volume where one is reserved for the claim.
        reserved = any(v.is_for(claim) for v in self.surroundings.of(Volume).values())
        if of.provisioner == "kubernetes.io/no-provisioner" or reserved:
            return False
        if of.topologies and not any_selects(of.topologies, node.name, node.labels):
            return False
        driver = self.surroundings.of(CSIDriver).get((of.provisioner,))
        if driver is None or not driver.reports_capacity:
            return True
        return any(
            each.storage_class == claim.storage_class and self._has(each, claim, node)
            for each in self.surroundings.of(StorageCapacity).values()
        )

    def _has(self, segment, claim, node):
        counted = all(other.key != claim.key for other, _ in self.charged)
        taken = sum(
            other.storage
            for other, name in self.charged
            if counted
            and other.storage_class == claim.storage_class
            and selects(segment.nodes, self.nodes[name].labels)
        )
        limit = segment.capacity if segment.maximum is None else segment.maximum
        return (
            selects(segment.nodes, node.labels)
            and claim.storage <= limit
            and (not taken or claim.storage + taken <= segment.capacity)
        )


def _reaches(volume, node):
    return volume.nodes is None or any_selects(volume.nodes, node.name, node.labels)


def unbound(name, storage, of, **more):
    """Return a claim that waits for its first consumer."""
    return Claim("shop", name, storage=storage, storage_class=of, uid=f"uid-{name}", **more)
