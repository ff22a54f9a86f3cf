-- How often doors were opened, by hour. One value of the feed is no number, and one of its tags is wrong.

CREATE STREAM door (hour INT NOT NULL, opened INT)
  WITH (source = 'samples/troubleshooting/doors.xml', element = 'door');

SELECT hour, SUM(opened) AS opened FROM door GROUP BY hour;
