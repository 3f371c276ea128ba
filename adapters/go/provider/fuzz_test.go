// These targets feed the server's own checks with messages near to real ones: error details and ranges of minors.
// Their seeds run with the other tests; docs/evidence.md says how to run them for hours.

package provider

import (
	"testing"
	"time"
	"unicode/utf8"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"

	v1 "outrigger.dev/adapters/go/cloudproviderv1"
)

func encoded(f *testing.F, message proto.Message) []byte {
	bytes, err := proto.Marshal(message)
	if err != nil {
		f.Fatal(err)
	}
	return bytes
}

// FuzzErrorDetails makes the status of an error: it can be sent, and says the same.
func FuzzErrorDetails(f *testing.F) {
	effects := encoded(f, &v1.KubernetesEffects{SetAnnotations: map[string]string{"x/a": "1"}})
	f.Add("no quota", int32(QuotaExceeded), int64(0), effects)
	f.Add("é\xff\x00", int32(RateLimited), int64(-1), []byte(nil))
	f.Add("", int32(99), int64(1<<62), []byte{0xff})
	f.Fuzz(func(t *testing.T, text string, reason int32, after int64, effects []byte) {
		raised := Errorf(Reason(reason), "%s", text).WithRetryAfter(time.Duration(after))
		beside := &v1.KubernetesEffects{}
		if proto.Unmarshal(effects, beside) == nil {
			raised.WithEffects(beside)
		}
		sent := wholeStatus(raised)
		if _, err := proto.Marshal(sent); err != nil {
			t.Fatal(err)
		}
		if len(sent.Message) > maxTextBytes || !utf8.ValidString(sent.Message) {
			t.Fatalf("message %q", sent.Message)
		}
		info, paused := &errdetails.ErrorInfo{}, false
		if err := sent.Details[0].UnmarshalTo(info); err != nil || info.Domain != errorDomain || info.Reason == "" {
			t.Fatalf("%v: %v", info, err)
		}
		for _, detail := range sent.Details[1:] {
			retry := &errdetails.RetryInfo{}
			if detail.MessageIs(retry) {
				paused = true
				if err := detail.UnmarshalTo(retry); err != nil || retry.RetryDelay.AsDuration() <= 0 {
					t.Fatalf("%v: %v", retry, err)
				}
			}
		}
		if Reason(reason) == RateLimited && !paused {
			t.Fatal("a pause without a time")
		}
	})
}

// FuzzNegotiate chooses a minor inside both ranges, or refuses with a reason.
func FuzzNegotiate(f *testing.F) {
	f.Add(uint32(1), uint32(1), uint32(1), uint32(1))
	f.Add(uint32(1), uint32(3), uint32(2), uint32(9))
	f.Add(uint32(4), uint32(5), uint32(1), uint32(3))
	f.Add(uint32(1), uint32(1), uint32(0), uint32(0))
	f.Fuzz(func(t *testing.T, ourMin, ourMax, theirMin, theirMax uint32) {
		if ourMin == 0 || ourMax < ourMin {
			return // ours are constants
		}
		minor, err := negotiate(ourMin, ourMax, theirMin, theirMax)
		common := theirMin > 0 && max(ourMin, theirMin) <= min(ourMax, theirMax)
		if common != (err == nil) || common && minor != min(ourMax, theirMax) {
			t.Fatalf("%d, %v", minor, err)
		}
	})
}
