// This file has the traffic of HTTP/1.1: random paths, made-up tokens, guessed volumes.

package flood

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
)

const http1 = "http/1.1"

// Paths asks for one random path after the other over HTTP/1.1: each is a review of a right.
func Paths() Traffic {
	return traffic(func() string { return "GET /" + random() + " HTTP/1.1\r\nHost: x\r\n\r\n" })
}

// Tokens shows one made-up token after the other over HTTP/1.1: each is a review of a token.
func Tokens() Traffic {
	return traffic(func() string {
		return "GET /metrics HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + random() + "\r\n\r\n"
	})
}

// Reviews asks a webhook about one guessed volume after the other: each is a lookup in the cloud.
func Reviews() Traffic {
	return traffic(func() string {
		body := review()
		return fmt.Sprintf("POST /persistentvolume-labels?timeout=5s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"+
			"Content-Length: %d\r\n\r\n%s", len(body), body)
	})
}

func traffic(next func() string) Traffic {
	return Traffic{protocol: http1, send: func(f *Flood, wire net.Conn) error { return f.http1(wire, next) }}
}

func (f *Flood) http1(wire net.Conn, next func() string) error {
	answers := bufio.NewReader(wire)
	for {
		if _, err := io.WriteString(wire, next()); err != nil {
			return err
		}
		answer, err := http.ReadResponse(answers, nil)
		if err != nil {
			return err
		}
		if _, err := io.Copy(io.Discard, answer.Body); err != nil {
			return err
		}
		f.answered(answer.StatusCode)
	}
}
