-- Each alarm, with how often the hall's doors were opened in its hour, if they were. The hall's feed has not ended.

CREATE STREAM alarm (hour INT NOT NULL, level INT)
  WITH (source = 'samples/troubleshooting/alarms.xml', element = 'alarm');

CREATE STREAM door (hour INT NOT NULL, opened INT)
  WITH (source = 'samples/troubleshooting/hall.xml', element = 'door');

SELECT alarm.hour, level, opened FROM alarm LEFT JOIN door ON alarm.hour = door.hour;
