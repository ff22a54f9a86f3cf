"""OVER: functions over a row and the rows near it in the order of time, by partition."""
