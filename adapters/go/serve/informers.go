// This file waits for the informers that a cloud's answers may rest on.

package serve

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"k8s.io/client-go/informers"
)

// slowInformers is when a warning names the informers that have not synced.
const slowInformers = 10 * time.Second

// AwaitInformers starts the informers that the cloud's constructor, Initialize and SetInformers asked for, and returns once
// they have synced: the cloud's answers may rest on them. The error says that ctx ended before.
func AwaitInformers(ctx context.Context, factory informers.SharedInformerFactory) error {
	slow := time.AfterFunc(slowInformers, func() {
		slog.Warn("the provider is not served before its informers have synced; have they the right to list and watch?",
			"informers", unsynced(factory))
	})
	defer slow.Stop()
	factory.Start(ctx.Done())
	for kind, synced := range factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return fmt.Errorf("stopped before the informer of %v had synced", kind)
		}
	}
	return nil
}

// unsynced names the informers that run and have not synced.
func unsynced(factory informers.SharedInformerFactory) []string {
	over := make(chan struct{})
	close(over) // for the state of this moment
	var kinds []string
	for kind, synced := range factory.WaitForCacheSync(over) {
		if !synced {
			kinds = append(kinds, kind.String())
		}
	}
	slices.Sort(kinds)
	return kinds
}
