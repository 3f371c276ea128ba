// This file reads from an error of a cloud's client what it shows of the answer of the cloud's API.

package serve

import (
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// maxPause is the longest pause that the contract knows.
const maxPause = time.Hour

// answer is what an error shows of the answer that it was made from. No client is imported for it: README.md lists
// the shapes that are read.
type answer struct {
	// statuses are those of HTTP.
	statuses []int
	// codes are the cloud's own words for a failure.
	codes []string
	// retryAfter is the pause that the cloud asks for; 0: none.
	retryAfter time.Duration
	// unreachable: no answer came.
	unreachable bool
}

// answerIn reads all errors that err consists of, and its text where none of them has a status or a code.
func answerIn(err error) *answer {
	a := &answer{}
	a.read(err)
	if len(a.statuses)+len(a.codes) == 0 {
		a.readText(err)
	}
	return a
}

func (a *answer) read(err error) {
	if err == nil {
		return
	}
	a.readMethods(err)
	value := reflect.ValueOf(err)
	inner := a.readFields(value)
	for _, method := range []reflect.Value{value.MethodByName("Response"), value.MethodByName("HTTPResponse")} { // hcloud, smithy
		if method.IsValid() && method.Type().NumIn() == 0 && method.Type().NumOut() == 1 {
			a.readFields(method.Call(nil)[0])
		}
	}
	switch wrapper := err.(type) {
	case interface{ Unwrap() error }:
		a.read(wrapper.Unwrap())
	case interface{ Unwrap() []error }:
		a.readAll(wrapper.Unwrap())
	case interface{ Errors() []error }: // apimachinery's Aggregate
		a.readAll(wrapper.Errors())
	default:
		a.read(inner)
	}
}

func (a *answer) readAll(errs []error) {
	for _, err := range errs {
		a.read(err)
	}
}

// statusOfCode are the HTTP statuses of the codes of gRPC.
var statusOfCode = map[codes.Code]int{
	codes.Unauthenticated: http.StatusUnauthorized, codes.PermissionDenied: http.StatusForbidden,
	codes.ResourceExhausted: http.StatusTooManyRequests,
}

func (a *answer) readMethods(err error) {
	switch err.(type) {
	case *net.OpError, *net.DNSError:
		a.unreachable = true
	}
	if smithy, ok := err.(interface{ ErrorCode() string }); ok {
		a.addCode(smithy.ErrorCode())
	}
	if smithy, ok := err.(interface{ HTTPStatusCode() int }); ok {
		a.addStatus(smithy.HTTPStatusCode())
	}
	if gophercloud, ok := err.(interface{ GetStatusCode() int }); ok {
		a.addStatus(gophercloud.GetStatusCode())
	}
	if gax, ok := err.(interface{ GRPCStatus() *status.Status }); ok {
		refused := gax.GRPCStatus()
		a.addStatus(statusOfCode[refused.Code()])
		a.unreachable = a.unreachable || refused.Code() == codes.Unavailable
		for _, detail := range refused.Details() {
			if retry, ok := detail.(*errdetails.RetryInfo); ok {
				a.retryAfter = pause(retry.RetryDelay.AsDuration())
			}
		}
	}
}

// readFields reads the exported fields of a struct. It returns the last one that is an error: gophercloud keeps a cause
// so, without unwrapping it.
func (a *answer) readFields(of reflect.Value) (inner error) {
	of = reflect.Indirect(of)
	if of.Kind() != reflect.Struct {
		return nil
	}
	for _, field := range reflect.VisibleFields(of.Type()) {
		value, err := of.FieldByIndexErr(field.Index)
		if err != nil || !field.IsExported() { // err: of an embedded pointer that is nil
			continue
		}
		switch content := value.Interface().(type) {
		case *http.Response:
			a.readFields(reflect.ValueOf(content))
		case http.Header:
			a.readHeader(content)
		case error:
			inner = content
		default:
			a.readField(field.Name, value)
		}
	}
	return inner
}

func (a *answer) readField(name string, value reflect.Value) {
	switch isCode := name == "Code" || name == "ErrorCode"; {
	case value.CanInt() && (isCode || name == "StatusCode" || name == "HTTPStatusCode"):
		a.addStatus(int(value.Int()))
	case value.Kind() == reflect.String && (isCode || name == "Reason"):
		a.addCode(value.String())
	case value.Kind() == reflect.Slice && name == "Errors": // googleapi: each has a reason
		for i := range value.Len() {
			a.readFields(value.Index(i))
		}
	}
}

// readHeader takes the pause from the first header that names one.
func (a *answer) readHeader(header http.Header) {
	if a.retryAfter == 0 {
		a.retryAfter = retryAfter(header, time.Now())
	}
}

// retryAfter is the pause that a header asks for, in seconds or until a date by the clock of the server, or, where that
// is not in the header, by now; 0: none.
func retryAfter(header http.Header, now time.Time) time.Duration {
	text := header.Get("Retry-After")
	if seconds, err := strconv.ParseUint(text, 10, 64); err == nil {
		return pause(time.Duration(min(seconds, uint64(maxPause.Seconds()))) * time.Second)
	}
	until, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	if sent, err := http.ParseTime(header.Get("Date")); err == nil {
		now = sent
	}
	return pause(until.Sub(now))
}

// pause moves a duration to the pauses that the contract has.
func pause(after time.Duration) time.Duration { return min(max(after, time.Second), maxPause) }

func (a *answer) addStatus(status int) {
	if status >= 100 && status <= 599 { // linodego has numbers of its own below
		a.statuses = append(a.statuses, status)
	}
}

func (a *answer) addCode(code string) {
	if code != "" {
		a.codes = append(a.codes, code)
	}
}

// textCodes are codes in texts of clients.
var textCodes = []*regexp.Regexp{
	// AWS's client, which AWS's provider wraps as text alone.
	regexp.MustCompile(`https response error StatusCode: \d+, RequestID: [^,]*, (?:api error )?([\w.]+):`),
	regexp.MustCompile(`(?s)\bgoogleapi: (?:Error|got HTTP response code) \d{3}\b.*\b((?:userR|r)ateLimitExceeded|quotaExceeded)\b`),
	regexp.MustCompile(`\brpc error: code = (\w+) desc = `),
	regexp.MustCompile(`\bhttp response: (Unauthorized|Forbidden|Too Many Requests): `), // egoscale
	regexp.MustCompile(`\berror returned from api : (Invalid API token)\b`),             // govultr from v3.34 on, without the status
}

// textStatus is an HTTP status in a text, in a form that clients of clouds use. Words around the number tell it from an
// ID, a port or an amount.
var textStatus = regexp.MustCompile(`(?i)(?:` + strings.Join([]string{
	`"(?:http_?)?status(?:_?code)?\\*": ?`,                                          // JSON, also quoted: govultr
	`\bstatus ?code(?:: ?|=| )`,                                                     // oci, egoscale, smithy
	`\bhttp(?:/[\d.]+)? (?:error |response code |status )?`,                         // "HTTP 401", "(HTTP 401)", "HTTP/1.1 401"
	`\bexpected http response code \[[\d ]*\] when accessing \[\w+ \S+\], but got `, // gophercloud
	`\b(?:get|head|post|put|patch|delete) https?://\S+: `,                           // godo
	`\bgoogleapi: error `,
	`\bcloudstack api error `,
	`-{9}(?:\n|\\n)response `, // azcore
}, "|") + `)(\d{3})(?:[\s,:;)}\]"\\]|\.\s|\.?$)`)

// readText takes what a text shows. Statuses that differ are none, and a text that may quote a match shows nothing.
func (a *answer) readText(err error) {
	text := err.Error()
	isQuoted := false
	for _, form := range textCodes {
		if match := form.FindStringSubmatch(text); match != nil {
			a.addCode(match[1])
			isQuoted = isQuoted || mayQuote(err, match...)
		}
	}
	var statuses []string
	for _, match := range textStatus.FindAllStringSubmatch(text, -1) {
		statuses = append(statuses, match[1])
		// Another status has no reason of its own, and may be a number of the object's by chance.
		isQuoted = isQuoted || slices.Contains([]string{"401", "403", "429", "503"}, match[1]) && mayQuote(err, match...)
	}
	switch statuses = slices.Compact(statuses); {
	case isQuoted:
		a.codes = nil
	case len(statuses) == 1:
		status, _ := strconv.Atoi(statuses[0]) // three digits
		a.addStatus(status)
	}
}

// quoting is an error of a call about objects: its text may quote what users and kubelets have written into them.
type quoting struct {
	error
	objects []any
}

func (q *quoting) Unwrap() error { return q.error }

// about is the error of a call about these objects of the contract; nil stays nil.
func about(err error, objects ...any) error {
	if err == nil {
		return nil
	}
	return &quoting{err, objects}
}

// mayQuote tells whether a match in the text of an error may come from the objects of its call. That is so if all letters and digits of
// the whole are in theirs; if all words of a group are, since clouds split and join what they quote; and if something of theirs has a %
// or \, since clouds decode URLs and JSON before.
func mayQuote(err error, match ...string) bool {
	var of *quoting
	if !errors.As(err, &of) {
		return false
	}
	encoded, failed := json.Marshal(of.objects)
	text := strings.NewReplacer(`\"`, " ", `\n`, " ").Replace(string(encoded))
	objectWords := words(text)
	isForeign := func(word string) bool { return !slices.Contains(objectWords, word) }
	return failed != nil || strings.ContainsAny(text, `%\`) ||
		strings.Contains(strings.Join(objectWords, ""), strings.Join(words(match[0]), "")) ||
		slices.ContainsFunc(match[1:], func(group string) bool { return group != "" && !slices.ContainsFunc(words(group), isForeign) })
}

func words(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}
