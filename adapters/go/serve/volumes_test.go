// This test labels volumes.

package serve

import (
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
)

func TestVolumesAreLabelledWithWhatAVolumeMayHave(t *testing.T) {
	client, _ := serving(t, Options{Volumes: &v1.VolumesCapability{CsiDrivers: []string{"csi.test"}}}, &cloud{
		labels: func(volume *corev1.PersistentVolume) (map[string]string, error) {
			switch volume.Spec.CSI.VolumeHandle {
			case "there":
				return map[string]string{corev1.LabelTopologyZone: "z", "node.kubernetes.io/x": "y", "a": "b"}, nil
			case "gone":
				return nil, fmt.Errorf("a: %w", cloudprovider.DiskNotFound)
			case "foreign":
				return nil, cloudprovider.NotImplemented
			default:
				return nil, errors.New("no")
			}
		},
	})
	request := &v1.BatchGetVolumesRequest{Context: attempt()}
	for _, handle := range []string{"there", "gone", "foreign", "broken"} {
		request.Items = append(request.Items, &v1.Volume{Key: handle, Source: &v1.VolumeSource{
			Source: &v1.VolumeSource_Csi{Csi: &v1.CsiVolumeSource{Driver: "csi.test", VolumeHandle: handle}},
		}})
	}
	response, err := v1.NewVolumesServiceClient(client).BatchGetVolumes(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	results := response.Results
	if labels := results[0].GetFound().GetLabels(); len(labels) != 2 || labels[corev1.LabelTopologyZone] != "z" || labels["a"] != "b" {
		t.Error(results[0])
	}
	if results[1].GetAbsent().GetCertainty() != v1.AbsenceCertainty_ABSENCE_CERTAINTY_CONFIRMED || results[2].GetNotManaged() == nil || reasonIn(t, results[3].GetError()) != "CLOUD_ERROR" {
		t.Error(results)
	}
}
