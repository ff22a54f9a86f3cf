"""OVER: functions of a row and of the rows near it in the order of time, one partition beside the other."""
