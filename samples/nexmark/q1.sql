-- Query 1, currency: every bid, from dollars to euros.

CREATE STREAM bidder (
  auction INT NOT NULL PATH '../@id',
  person INT NOT NULL PATH 'person_ref/@person',
  bid INT NOT NULL,
  time INT NOT NULL
) WITH (source = 'samples/nexmark/nexmark.xml', element = 'open_auction/bidder');

SELECT auction, person, bid * 0.908 AS bid, time FROM bidder;
