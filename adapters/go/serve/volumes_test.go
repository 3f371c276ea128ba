// This test labels volumes.

package serve

import (
	"errors"
	"fmt"
	"testing"

	"google.golang.org/grpc/status"
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
	look := func(handle string) (*v1.GetVolumeResponse, error) {
		return v1.NewVolumesServiceClient(client).GetVolume(t.Context(), &v1.GetVolumeRequest{
			Context: attempt(), Volume: &v1.Volume{Source: &v1.VolumeSource{
				Source: &v1.VolumeSource_Csi{Csi: &v1.CsiVolumeSource{Driver: "csi.test", VolumeHandle: handle}},
			}},
		})
	}
	there, err := look("there")
	if labels := there.GetFound().GetLabels(); err != nil || len(labels) != 2 || labels[corev1.LabelTopologyZone] != "z" || labels["a"] != "b" {
		t.Error(there, err)
	}
	gone, err := look("gone")
	if err != nil || gone.GetAbsent().GetCertainty() != v1.AbsenceCertainty_ABSENCE_CERTAINTY_CONFIRMED {
		t.Error(gone, err)
	}
	foreign, err := look("foreign")
	if err != nil || foreign.GetNotManaged() == nil {
		t.Error(foreign, err)
	}
	if _, err := look("broken"); reasonIn(t, status.Convert(err).Proto()) != "CLOUD_ERROR" {
		t.Error(err)
	}
}
