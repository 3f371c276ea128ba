// Package cloudproviderv1 is the contract between Outrigger's controller and a provider, cloudprovider.v1: messages, services, and a
// table of the rules of each method. All but this page is generated from proto/cloudprovider/v1, whose comments say what each
// field means. Package provider serves it; few programs need its clients.
package cloudproviderv1
