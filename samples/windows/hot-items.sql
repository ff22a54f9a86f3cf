-- The number of bids on each item in ten instants, every five instants, if it is two or more. A window of an item is
-- emitted when the bids on that item are closed up to the end of the window.

CREATE STREAM bid (item STRING PATH '@item', price INT, ts INT NOT NULL PATH '@ts')
  WITH (source = 'samples/windows/bids.xml', element = 'bid', timestamp = 'ts');

SELECT item, window_start, window_end, COUNT(*) AS bids
FROM HOP(TABLE bid, DESCRIPTOR(ts), 5, 10)
GROUP BY item, window_start, window_end
HAVING COUNT(*) >= 2;
