// This file classifies the errors of a cloud, and keeps what its calls show about its API and credentials.

package serve

import (
	"errors"

	"outrigger.dev/adapters/go/provider"
)

// The dependencies of every Go cloud, as GetStatus names them.
const (
	cloudAPI    = "cloud-api"
	credentials = "credentials"
)

// outcomes names the errors of a cloud, and remembers what calls have shown of it: a Go cloud has no word for
// how it is.
type outcomes struct {
	classify classifier
	shown    *provider.Dependencies
}

func newOutcomes(classify classifier) *outcomes {
	return &outcomes{classify: classify, shown: provider.NewDependencies(cloudAPI, credentials)}
}

// saw has the result of a call that the cloud has made, and gives its error a reason. An error that says nothing
// about cloud or credentials changes nothing.
func (o *outcomes) saw(err error) error {
	err = o.classify.asError(err)
	var named *provider.Error
	switch {
	case err == nil:
		o.shown.Works(cloudAPI, credentials)
	case !errors.As(err, &named):
	case named.Reason == provider.CredentialsInvalid:
		o.shown.Works(cloudAPI)
		o.shown.Fails(credentials, err.Error())
	case named.Reason == provider.CloudUnavailable, named.Reason == provider.RateLimited:
		o.shown.Fails(cloudAPI, err.Error())
	}
	return err
}
