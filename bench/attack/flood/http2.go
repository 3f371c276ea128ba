// This file has the traffic of HTTP/2: many streams, and uploads.

package flood

import (
	"bytes"
	"fmt"
	"net"
	"strconv"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// Streams asks for random paths over HTTP/2, so many in parallel as the server allows, at most `most`.
func Streams(most int) Traffic {
	return Traffic{protocol: http2.NextProtoTLS, send: func(f *Flood, wire net.Conn) error { return f.http2(wire, uint32(most), 0) }}
}

// Uploads sends a body of so many bytes to one random path after the other over HTTP/2.
func Uploads(size int) Traffic {
	return Traffic{protocol: http2.NextProtoTLS, send: func(f *Flood, wire net.Conn) error { return f.http2(wire, 1, size) }}
}

// session is a connection of HTTP/2 as a client that reads each answer and keeps no state of it.
type session struct {
	flood  *Flood
	frames *http2.Framer
	encode *hpack.Encoder
	block  bytes.Buffer
	codes  map[uint32]int
	next   uint32
	// most is the number of parallel streams that the server allows and the attack has.
	most uint32
	// size is that of a body, left what is left of the last body that is open.
	size, left int
	// window of the connection, and of the only stream that has a body.
	window, streamWindow, initialWindow int
}

func (f *Flood) http2(wire net.Conn, most uint32, size int) error {
	s := &session{
		flood: f, frames: http2.NewFramer(wire, wire), codes: map[uint32]int{}, next: 1, most: most, size: size,
		window: 65_535, initialWindow: 65_535,
	}
	s.encode = hpack.NewEncoder(&s.block)
	s.frames.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	if _, err := wire.Write([]byte(http2.ClientPreface)); err != nil {
		return err
	}
	const wide = 1 << 30
	if err := s.frames.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: wide}); err != nil {
		return err
	}
	if err := s.frames.WriteWindowUpdate(0, wide); err != nil {
		return err
	}
	for knows := false; ; {
		frame, err := s.frames.ReadFrame()
		if err != nil {
			return err
		}
		if err := s.take(frame); err != nil {
			return err
		}
		_, isSettings := frame.(*http2.SettingsFrame)
		knows = knows || isSettings
		// Before, it cannot know how many streams there may be.
		for knows && uint32(len(s.codes)) < s.most {
			if err := s.open(); err != nil {
				return err
			}
		}
		if err := s.upload(); err != nil {
			return err
		}
	}
}

func (s *session) open() error {
	s.block.Reset()
	method := "GET"
	if s.size > 0 {
		method = "POST"
	}
	for _, field := range []hpack.HeaderField{
		{Name: ":method", Value: method}, {Name: ":scheme", Value: "https"}, {Name: ":authority", Value: "x"},
		{Name: ":path", Value: "/" + random(), Sensitive: true},
	} {
		if err := s.encode.WriteField(field); err != nil {
			return err
		}
	}
	err := s.frames.WriteHeaders(http2.HeadersFrameParam{
		StreamID: s.next, BlockFragment: s.block.Bytes(), EndHeaders: true, EndStream: s.size == 0,
	})
	s.codes[s.next] = 0
	s.left, s.streamWindow = s.size, s.initialWindow
	s.next += 2
	return err
}

// upload sends as much of the body as the server's windows allow.
func (s *session) upload() error {
	const most = 16 << 10
	stream := s.next - 2
	for s.left > 0 && s.window > 0 && s.streamWindow > 0 {
		if _, isOpen := s.codes[stream]; !isOpen {
			return nil
		}
		bytes := min(s.left, s.window, s.streamWindow, most)
		if err := s.frames.WriteData(stream, bytes == s.left, make([]byte, bytes)); err != nil {
			return err
		}
		s.left -= bytes
		s.window -= bytes
		s.streamWindow -= bytes
	}
	return nil
}

func (s *session) take(frame http2.Frame) error {
	stream := frame.Header().StreamID
	switch frame := frame.(type) {
	case *http2.SettingsFrame:
		if frame.IsAck() {
			return nil
		}
		if most, ok := frame.Value(http2.SettingMaxConcurrentStreams); ok {
			s.most = min(s.most, most)
		}
		if window, ok := frame.Value(http2.SettingInitialWindowSize); ok {
			s.streamWindow += int(window) - s.initialWindow
			s.initialWindow = int(window)
		}
		return s.frames.WriteSettingsAck()
	case *http2.WindowUpdateFrame:
		if stream == 0 {
			s.window += int(frame.Increment)
		} else if stream == s.next-2 {
			s.streamWindow += int(frame.Increment)
		}
	case *http2.PingFrame:
		if !frame.IsAck() {
			return s.frames.WritePing(true, frame.Data)
		}
	case *http2.MetaHeadersFrame:
		code, err := strconv.Atoi(frame.PseudoValue("status"))
		if err != nil {
			return err
		}
		s.codes[stream] = code
		s.closed(stream, frame.StreamEnded())
	case *http2.DataFrame:
		s.closed(stream, frame.StreamEnded())
	case *http2.RSTStreamFrame:
		s.closed(stream, true)
	case *http2.GoAwayFrame:
		return fmt.Errorf("the server says GOAWAY: %s", frame.ErrCode)
	}
	return nil
}

// closed forgets a stream that has ended; a stream that was reset after its answer is forgotten already.
func (s *session) closed(stream uint32, ended bool) {
	code, isOpen := s.codes[stream]
	if !ended || !isOpen {
		return
	}
	delete(s.codes, stream)
	s.flood.answered(code)
}
