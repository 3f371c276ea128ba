// These tests look up and list instances through a real socket.

package provider_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
	"outrigger.dev/adapters/go/provider"
)

func TestALookupAnswersForEachNode(t *testing.T) {
	answers := map[string]func() (provider.Lookup, error){
		"found":   func() (provider.Lookup, error) { return provider.Found(&v1.Instance{ProviderId: "test://1"}), nil },
		"absent":  func() (provider.Lookup, error) { return provider.Absent(), nil },
		"young":   func() (provider.Lookup, error) { return provider.NotVisibleYet(), nil },
		"foreign": func() (provider.Lookup, error) { return provider.NotManaged("no"), nil },
		"none":    func() (provider.Lookup, error) { return provider.Lookup{}, nil },
		"nil":     func() (provider.Lookup, error) { return provider.Found(nil), nil },
		"panics":  func() (provider.Lookup, error) { panic("secret") },
		"wrapped": func() (provider.Lookup, error) {
			return provider.Lookup{}, fmt.Errorf("here: %w", provider.Errorf(provider.CloudError, "no"))
		},
	}
	s := serve(t, &provider.Provider{Instances: &cloud{
		lookup: func(_ context.Context, node *v1.Node) (provider.Lookup, error) { return answers[node.Name]() },
	}})
	s.handshake()
	request := &v1.BatchGetInstancesRequest{Context: attempt()}
	for name := range answers {
		request.Items = append(request.Items, &v1.Node{Name: name})
	}
	response, err := v1.NewInstancesServiceClient(s.client).BatchGetInstances(t.Context(), request)
	if err != nil || len(response.Results) != len(answers) {
		t.Fatal(response, err)
	}
	confirmed, young := v1.AbsenceCertainty_ABSENCE_CERTAINTY_CONFIRMED, v1.AbsenceCertainty_ABSENCE_CERTAINTY_NOT_VISIBLE_YET
	for _, result := range response.Results {
		failed := result.GetError()
		ok := false
		switch result.Key {
		case "found":
			ok = result.GetFound().GetProviderId() == "test://1"
		case "absent":
			ok = result.GetAbsent().GetCertainty() == confirmed
		case "young":
			ok = result.GetAbsent().GetCertainty() == young
		case "foreign":
			ok = result.GetNotManaged().GetReason() == "no"
		case "none", "nil":
			ok = result.Outcome == nil
		case "panics":
			ok = strings.Contains(failed.GetMessage(), "request id r") && !strings.Contains(failed.GetMessage(), "secret")
		case "wrapped":
			ok = reasonIn(t, failed) == "CLOUD_ERROR" && failed.Message == "here: no" && failed.Code == int32(codes.Internal)
		}
		if !ok {
			t.Errorf("%s: %v", result.Key, result)
		}
	}
}

func TestARateLimitEndsTheRestOfABatch(t *testing.T) {
	var mu sync.Mutex
	calls := 0
	s := serve(t, &provider.Provider{Instances: &cloud{
		lookup: func(context.Context, *v1.Node) (provider.Lookup, error) {
			mu.Lock()
			defer mu.Unlock()
			calls++
			return provider.Lookup{}, provider.RateLimitedFor(7*time.Second, errors.New("429"))
		},
	}})
	s.handshake()
	request := &v1.BatchGetInstancesRequest{Context: attempt()}
	for index := range 50 {
		request.Items = append(request.Items, &v1.Node{Name: fmt.Sprint(index)})
	}
	response, err := v1.NewInstancesServiceClient(s.client).BatchGetInstances(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	for _, result := range response.Results {
		if reasonIn(t, result.GetError()) != "RATE_LIMITED" || len(result.GetError().Details) != 2 {
			t.Fatal(result)
		}
	}
	if calls > 8 {
		t.Errorf("the cloud was asked %d times after it had limited the rate", calls)
	}
}

func TestAListIsWholeOnlyWithoutAnError(t *testing.T) {
	large := strings.Repeat("x", 700<<10)
	var failure error
	s := serve(t, &provider.Provider{Instances: &cloud{list: func(send func(*v1.Instance) error) error {
		for index := range 3 {
			if err := send(&v1.Instance{ProviderId: fmt.Sprint(index), Zone: large}); err != nil {
				return err
			}
		}
		return failure
	}}})
	s.handshake()
	list := func() (messages int, complete bool, err error) {
		stream, err := v1.NewInstancesServiceClient(s.client).ListInstances(t.Context(), &v1.ListInstancesRequest{Context: attempt()})
		for err == nil {
			var message *v1.ListInstancesResponse
			if message, err = stream.Recv(); err == nil {
				messages++
				complete = message.Complete
			}
		}
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return messages, complete, err
	}
	if messages, complete, err := list(); messages != 3 || !complete || err != nil {
		t.Fatal(messages, complete, err)
	}
	failure = provider.Errorf(provider.CloudUnavailable, "away")
	if _, complete, err := list(); complete || reasonOf(t, err) != "CLOUD_UNAVAILABLE" {
		t.Fatal(complete, err)
	}
}

// One instance that hangs must not take the answers about the others with it.
func TestABatchAnswersWhatItHasBeforeTheDeadline(t *testing.T) {
	hangs := make(chan struct{})
	defer close(hangs)
	s := serve(t, &provider.Provider{Instances: &cloud{
		lookup: func(ctx context.Context, node *v1.Node) (provider.Lookup, error) {
			switch {
			case node.Name == "deaf": // to its context, too
				<-hangs
			case strings.HasPrefix(node.Name, "hangs"):
				<-ctx.Done()
				return provider.Lookup{}, ctx.Err()
			}
			return provider.Found(&v1.Instance{ProviderId: "test://" + node.Name}), nil
		},
	}})
	s.handshake()
	request := &v1.BatchGetInstancesRequest{Context: attempt(), Items: []*v1.Node{{Name: "deaf"}, {Name: "hangs-1"}}}
	for index := range 30 {
		request.Items = append(request.Items, &v1.Node{Name: fmt.Sprint(index)})
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	response, err := v1.NewInstancesServiceClient(s.client).BatchGetInstances(ctx, request)
	if err != nil || len(response.Results) != len(request.Items) {
		t.Fatal(response, err)
	}
	for _, result := range response.Results {
		if result.Key != "deaf" && result.Key != "hangs-1" {
			if result.GetFound() == nil {
				t.Error(result)
			}
			continue
		}
		failed := result.GetError()
		if failed.GetCode() != int32(codes.DeadlineExceeded) || !strings.Contains(failed.Message, "has not answered") {
			t.Error(result)
		}
	}
}

// Where as many hang as are asked at one time, some of the others are not reached: they get an error that says so, and
// another order the next time.
func TestNodesBehindThoseThatHangAreReachedInTheEnd(t *testing.T) {
	s := serve(t, &provider.Provider{Instances: &cloud{
		lookup: func(ctx context.Context, node *v1.Node) (provider.Lookup, error) {
			if strings.HasPrefix(node.Name, "hangs") {
				<-ctx.Done()
				return provider.Lookup{}, ctx.Err()
			}
			return provider.Found(&v1.Instance{ProviderId: "test://" + node.Name}), nil
		},
	}})
	s.handshake()
	request := &v1.BatchGetInstancesRequest{Context: attempt()}
	for index := range 8 {
		request.Items = append(request.Items, &v1.Node{Name: fmt.Sprint("hangs-", index)})
	}
	request.Items = append(request.Items, &v1.Node{Name: "last"})
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		response, err := v1.NewInstancesServiceClient(s.client).BatchGetInstances(ctx, request)
		cancel()
		if err != nil {
			continue
		}
		for _, result := range response.Results {
			switch {
			case result.Key != "last":
			case result.GetFound() != nil:
				return
			case !strings.Contains(result.GetError().GetMessage(), "not asked"):
				t.Fatal(result)
			}
		}
	}
	t.Fatal("a node was never asked about")
}
