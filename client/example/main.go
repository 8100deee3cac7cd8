// Command example revives the dead messages of a topic that match an error, as a program outside the module would.
//
//	DLQ_TOKEN_FILE=token go run . https://dlq.example.com orders.dlq.v1 timeout
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"dlqmanager/client"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "example:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) != 3 {
		return fmt.Errorf("want 3 arguments, got %d: the address of the server, a topic and a part of an error", len(args))
	}
	var token client.TokenSource
	if path := os.Getenv("DLQ_TOKEN_FILE"); path != "" {
		token = client.FileToken(path)
	}
	c, err := client.New(args[0], client.Config{Token: token})
	if err != nil {
		return err
	}
	topic, cause := args[1], args[2]
	for message, err := range c.AllMessages(ctx, topic, &client.ListMessagesParams{Error: &cause, Status: &[]client.Status{client.StatusDEAD}}) {
		if err != nil {
			return err
		}
		fmt.Println(message.ID, message.ErrorMessage)
	}

	var request client.JobRequest
	change := client.ChangeJobRequest{Kind: client.ChangeKindRevive, Topic: topic, Error: &cause}
	if err := request.FromChangeJobRequest(change); err != nil {
		return err
	}
	planned, err := c.CreatePlan(ctx, request)
	if err != nil {
		return err
	}
	plan, err := planned.Value.AsChangePlan()
	if err != nil {
		return err
	}
	fmt.Println(plan.Matched, "messages will be revived")

	var start client.JobStart
	if err := start.FromPlanStart(client.PlanStart{Plan: plan.ID}); err != nil {
		return err
	}
	job, err := c.RunJob(ctx, start, nil)
	if err != nil {
		return err
	}
	ended, err := job.Summary()
	if err != nil {
		return err
	}
	fmt.Println("the job is", ended.State)
	return nil
}
