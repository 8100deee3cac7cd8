module example.com/dlqclient

go 1.26.0

require dlqmanager v0.0.0

replace dlqmanager => ../..
