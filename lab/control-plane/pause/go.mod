module github.com/outrigger-dev/outrigger/testbed/control-plane/pause

go 1.26.0
