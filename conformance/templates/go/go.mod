module example.com/provider-my-cloud

go 1.26

@SDK@
