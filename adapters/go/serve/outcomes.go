// This file classifies the errors of a cloud, and keeps what its calls show about its API and credentials.

package serve

import (
	"errors"
	"sync/atomic"
	"time"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
	"outrigger.dev/adapters/go/provider"
)

// The dependencies of every Go cloud, as GetStatus names them.
const (
	cloudAPI         = "cloud-api"
	credentials      = "credentials"
	kubernetesRights = "kubernetes"
)

// refusalShown is how long the status shows that Kubernetes refuses what a call needs: longer than the controller waits
// before it makes the call again. The calls about other objects may succeed meanwhile.
const refusalShown = 10 * time.Minute

// outcomes names the errors of a cloud, and remembers what calls have shown of it: a Go cloud has no word for
// how it is.
type outcomes struct {
	now      func() time.Time
	classify classifier
	shown    *provider.Dependencies
	// refusedAt is when Kubernetes has last refused what a call needs, in nanoseconds; 0: never.
	refusedAt atomic.Int64
}

func newOutcomes(classify classifier) *outcomes {
	return &outcomes{
		now: time.Now, classify: classify, shown: provider.NewDependencies(cloudAPI, credentials, kubernetesRights),
	}
}

// status is that of the dependencies.
func (o *outcomes) status() *v1.GetStatusResponse {
	if at := o.refusedAt.Load(); at != 0 && o.now().Sub(time.Unix(0, at)) > refusalShown && o.refusedAt.CompareAndSwap(at, 0) {
		o.shown.Works(kubernetesRights)
	}
	return o.shown.Status()
}

// saw has the result of a call that the cloud has made, and gives its error a reason. An error that says nothing
// about cloud or credentials changes nothing.
func (o *outcomes) saw(err error) error {
	isRefused := err != nil && isKubernetesRefusal(err) // of this error: Classify's knows no objects
	err = o.classify.asError(err)
	var named *provider.Error
	switch {
	case err == nil:
		o.shown.Works(cloudAPI, credentials)
	case !errors.As(err, &named):
	case isRefused:
		o.refusedAt.Store(o.now().UnixNano())
		o.shown.Fails(kubernetesRights, err.Error())
	case named.Reason == provider.CredentialsInvalid:
		o.shown.Works(cloudAPI)
		o.shown.Fails(credentials, err.Error())
	case named.Reason == provider.CloudUnavailable, named.Reason == provider.RateLimited:
		o.shown.Fails(cloudAPI, err.Error())
	}
	return err
}
