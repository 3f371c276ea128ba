// This file serves ProviderService: the handshake and the status.

package provider

import (
	"context"

	"google.golang.org/protobuf/proto"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
)

// Minor revisions of the contract that this package speaks.
const (
	minMinor = 1
	maxMinor = 1
)

// identityRPC says which provider answers, which minor it speaks, and its status.
type identityRPC struct {
	v1.UnimplementedProviderServiceServer
	core *core
}

func (s *identityRPC) Handshake(_ context.Context, request *v1.HandshakeRequest) (*v1.HandshakeResponse, error) {
	c := s.core
	if c.running.isDraining() {
		return nil, errShuttingDown
	}
	minor, err := negotiate(minMinor, maxMinor, request.MinMinor, request.MaxMinor)
	if err != nil {
		return nil, err
	}
	cluster := Cluster{
		Name: request.Cluster.GetName(), UID: request.Cluster.GetUid(),
		PodCIDRs: request.Cluster.GetPodCidrs(), ServiceCIDRs: request.Cluster.GetServiceCidrs(),
	}
	c.log.Info("handshake", "minor", minor, "controller", request.ControllerName, "controller_version", request.ControllerVersion,
		"kubernetes_version", request.KubernetesVersion, "cluster", cluster.Name)
	c.shakeHands(cluster, request.MaxReceiveMessageBytes)
	bootID, offered := c.offer()
	return &v1.HandshakeResponse{
		Minor:                     minor,
		ProviderName:              c.provider.Name,
		ProviderVersion:           c.provider.Version,
		BootId:                    bootID,
		Capabilities:              offered,
		WithoutClusterId:          c.provider.WithoutClusterID,
		ServiceAnnotationPrefixes: c.provider.ServiceAnnotationPrefixes,
		NodeAnnotationPrefixes:    c.provider.NodeAnnotationPrefixes,
		MaxReceiveMessageBytes:    maxMessageBytes,
		RateLimits:                c.provider.RateLimits,
	}, nil
}

func (s *identityRPC) GetStatus(context.Context, *v1.GetStatusRequest) (*v1.GetStatusResponse, error) {
	if s.core.running.isDraining() {
		return nil, errShuttingDown
	}
	return s.core.status(), nil
}

// status is the vendor's status; a vendor's code that panics is broken.
func (c *core) status() *v1.GetStatusResponse {
	bootID, _ := c.offer()
	if c.provider.Status == nil {
		return &v1.GetStatusResponse{Readiness: v1.Readiness_READINESS_READY, BootId: bootID}
	}
	status, err := Recovered(context.Background(), func() (*v1.GetStatusResponse, error) { return c.provider.Status(), nil })
	if err != nil || status == nil {
		c.log.Error("the provider's status panicked or is nil; reported as broken")
		status = &v1.GetStatusResponse{Readiness: v1.Readiness_READINESS_BROKEN}
	}
	status = proto.CloneOf(status)
	status.BootId = bootID
	return status
}

// serving reports whether the provider serves, as grpc.health.v1 understands it.
func (c *core) serving() bool {
	if c.running.isDraining() {
		return false
	}
	readiness := c.status().Readiness
	return readiness == v1.Readiness_READINESS_READY || readiness == v1.Readiness_READINESS_DEGRADED
}

// negotiate chooses the minor that both sides speak: the lower of both maxima, inside both ranges.
func negotiate(ourMin, ourMax, theirMin, theirMax uint32) (uint32, error) {
	if theirMin == 0 || theirMax < theirMin {
		return 0, Errorf(InvalidRequest,
			"min_minor %d and max_minor %d are no range; send 1 <= min_minor <= max_minor", theirMin, theirMax)
	}
	minor := min(ourMax, theirMax)
	if minor < ourMin || minor < theirMin {
		return 0, Errorf(v1.ErrorReason_ERROR_REASON_VERSION_UNSUPPORTED,
			"the controller speaks minor %d to %d of cloudprovider.v1, this provider %d to %d; upgrade the older of them",
			theirMin, theirMax, ourMin, ourMax)
	}
	return minor, nil
}
