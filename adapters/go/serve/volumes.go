// This file answers lookups of volumes with a cloud's PVLabeler.

package serve

import (
	"context"
	"errors"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudprovider "k8s.io/cloud-provider"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
	"outrigger.dev/adapters/go/provider"
)

// topologyKeys of the domain kubernetes.io that a volume may get.
var topologyKeys = []string{
	corev1.LabelTopologyZone, corev1.LabelTopologyRegion,
	corev1.LabelFailureDomainBetaZone, corev1.LabelFailureDomainBetaRegion,
}

// volumes answers with a cloud's PVLabeler.
type volumes struct {
	cloud    cloudprovider.PVLabeler
	outcomes *outcomes
}

func (v *volumes) GetVolume(ctx context.Context, volume *v1.Volume) (*v1.GetVolumeResponse, error) {
	labels, err := v.cloud.GetLabelsForVolume(ctx, volumeOf(volume))
	named := v.outcomes.saw(about(err, volume))
	switch {
	case errors.Is(err, cloudprovider.DiskNotFound):
		return provider.VolumeAbsent(provider.Confirmed(err.Error())), nil
	case errors.Is(err, cloudprovider.NotImplemented), errors.Is(err, cloudprovider.ImplementedElsewhere):
		return provider.VolumeNotManaged(err.Error()), nil
	case err != nil:
		return nil, named
	}
	topology := &v1.VolumeTopology{Labels: map[string]string{}}
	for key, value := range labels {
		if isOfKubernetes(key) && !slices.Contains(topologyKeys, key) {
			provider.CallOf(ctx).Log.Warn("a label of a volume is left out: its domain is Kubernetes' own",
				"volume", volume.Name, "label", key)
			continue
		}
		topology.Labels[key] = value
	}
	return provider.VolumeFound(topology), nil
}

func isOfKubernetes(key string) bool {
	domain, _, qualified := strings.Cut(key, "/")
	domain = "." + domain
	return qualified && (strings.HasSuffix(domain, ".kubernetes.io") || strings.HasSuffix(domain, ".k8s.io"))
}

// volumeOf is the PersistentVolume as far as the controller sends it.
func volumeOf(sent *v1.Volume) *corev1.PersistentVolume {
	volume := &corev1.PersistentVolume{
		TypeMeta:   metav1.TypeMeta{Kind: "PersistentVolume", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{Name: sent.Name, Labels: sent.Labels},
	}
	to := &volume.Spec.PersistentVolumeSource
	switch source := sent.GetSource().GetSource().(type) {
	case *v1.VolumeSource_Csi:
		to.CSI = &corev1.CSIPersistentVolumeSource{
			Driver: source.Csi.GetDriver(), VolumeHandle: source.Csi.GetVolumeHandle(),
			VolumeAttributes: source.Csi.GetVolumeAttributes(),
		}
	case *v1.VolumeSource_AwsElasticBlockStore:
		to.AWSElasticBlockStore = &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: source.AwsElasticBlockStore.GetVolumeId()}
	case *v1.VolumeSource_GcePersistentDisk:
		to.GCEPersistentDisk = &corev1.GCEPersistentDiskVolumeSource{PDName: source.GcePersistentDisk.GetPdName()}
	case *v1.VolumeSource_AzureDisk:
		disk := source.AzureDisk
		to.AzureDisk = &corev1.AzureDiskVolumeSource{DiskName: disk.GetDiskName(), DataDiskURI: disk.GetDiskUri()}
		if disk.GetKind() != "" {
			kind := corev1.AzureDataDiskKind(disk.GetKind())
			to.AzureDisk.Kind = &kind
		}
	case *v1.VolumeSource_Cinder:
		to.Cinder = &corev1.CinderPersistentVolumeSource{VolumeID: source.Cinder.GetVolumeId()}
	case *v1.VolumeSource_VsphereVolume:
		to.VsphereVolume = &corev1.VsphereVirtualDiskVolumeSource{
			VolumePath: source.VsphereVolume.GetVolumePath(), StoragePolicyName: source.VsphereVolume.GetStoragePolicyName(),
			StoragePolicyID: source.VsphereVolume.GetStoragePolicyId(),
		}
	}
	return volume
}
