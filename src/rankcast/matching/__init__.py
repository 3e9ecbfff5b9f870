"""`RankedMatcher`: the k best subscriptions for an event [Ranked]."""
