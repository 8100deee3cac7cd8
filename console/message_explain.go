package console

import "dlqmanager/client"

func (v *visit) aboutStatus(status client.Status) string {
	switch status {
	case client.StatusPENDING:
		return v.text("It waits for a retry.")
	case client.StatusRETRYING:
		return v.text("A workflow is sending it. Closing this page stops nothing.")
	case client.StatusRESOLVED:
		return v.text("It is done here.")
	case client.StatusDEAD:
		return v.text("It is not sent again unless somebody revives it.")
	default:
		return ""
	}
}

func (v *visit) aboutResolution(resolution *client.Resolution) string {
	if resolution == nil {
		return ""
	}
	switch *resolution {
	case client.ResolutionDelivered:
		return v.text("Delivered: the target has acknowledged it.")
	case client.ResolutionReplaced:
		return v.text("Replaced: an edited copy was sent in its place.")
	case client.ResolutionExhausted:
		return v.text("Exhausted: all its retries failed.")
	case client.ResolutionRefused:
		return v.text("Refused: the target can never take it as it is.")
	case client.ResolutionGivenUp:
		return v.text("Given up: somebody marked it dead.")
	default:
		return string(*resolution)
	}
}

func (v *visit) aboutVerified(verified *client.Verified, reason *client.VerifiedReason) string {
	switch {
	case verified == nil:
		return ""
	case *verified == client.VerifiedYes:
		return v.text("Passed by the consumer: its group has committed an offset beyond the message, and it has not come back.")
	case *verified == client.VerifiedNo && reason == nil:
		return v.text("Not passed by the consumer yet: its group has not committed an offset beyond the message.")
	case *verified == client.VerifiedNo:
		return v.text("Not passed: the consumer failed again, and the message came back.")
	case reason == nil:
		return v.text("Nobody can say whether the consumer got past it.")
	}
	return v.text("Nobody can say whether the consumer got past it: %s", v.aboutUnknown(*reason))
}

func (v *visit) aboutUnknown(reason client.VerifiedReason) string {
	switch reason {
	case client.VerifiedReasonNoTarget:
		return v.text("it is not known where it was written.")
	case client.VerifiedReasonHTTPTarget:
		return v.text("it went to an HTTP endpoint, which has no offsets.")
	case client.VerifiedReasonNoOffset:
		return v.text("the target did not tell the offset.")
	case client.VerifiedReasonTopicChanged:
		return v.text("the topic was deleted and made anew.")
	case client.VerifiedReasonShareGroup:
		return v.text("a share group does not commit offsets.")
	case client.VerifiedReasonRetryTopics:
		return v.text("the consumer uses retry topics, so its offset says nothing.")
	case client.VerifiedReasonNoGroup:
		return v.text("the consumer group is not known.")
	case client.VerifiedReasonNotRead:
		return v.text("the offsets of the group have not been read yet.")
	case client.VerifiedReasonRefused:
		return v.text("Kafka does not let the manager read the offsets of the group.")
	case client.VerifiedReasonGroupGone:
		return v.text("the consumer group is gone.")
	case client.VerifiedReasonOutdated:
		return v.text("the offsets of the group were read too long ago.")
	case client.VerifiedReasonCameBack:
		return v.text("it came back.")
	default:
		return string(reason)
	}
}

func (v *visit) aboutCategory(category *client.Category) string {
	if category == nil {
		return ""
	}
	switch *category {
	case client.CategoryTransient:
		return v.text("passing fault, such as a network error")
	case client.CategoryRateLimit:
		return v.text("the target asked to slow down")
	case client.CategoryAuth:
		return v.text("the manager may not write to the target; the message is not at fault")
	case client.CategoryBadData:
		return v.text("the target refuses this message, whatever the time")
	default:
		return string(*category)
	}
}

func (v *visit) aboutRetryState(state client.SingleRetryState) string {
	switch state {
	case client.SingleRetryStateUNCLAIMED:
		return v.text("No worker has taken the message for this retry. It waits for a worker, or it did not start. Another retry joins it or starts anew.")
	case client.SingleRetryStateRUNNING:
		return v.text("The retry is sending the message.")
	case client.SingleRetryStateSUCCEEDED:
		return v.text("The target has acknowledged the message. Whether the consumer got past it, the page of the message shows.")
	case client.SingleRetryStateFAILED:
		return v.text("The message was not delivered. The error says why.")
	case client.SingleRetryStateCANCELLED:
		return v.text("The retry ended without an attempt: it was cancelled, or the message was marked dead meanwhile.")
	case client.SingleRetryStateGONE:
		return v.text("The message was deleted, and the outcome with it.")
	default:
		return ""
	}
}
