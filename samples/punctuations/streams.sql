-- Two gates of a depot weigh parcels. A gate emits a punctuation when a van is full; vans leave in any order.
CREATE STREAM north (id INT, van INT NOT NULL, kg INT)
  WITH (source = 'samples/punctuations/north.xml', element = 'parcel');
CREATE STREAM south (id INT, van INT NOT NULL, kg INT)
  WITH (source = 'samples/punctuations/south.xml', element = 'parcel');
CREATE STREAM driver (van INT NOT NULL, name STRING)
  WITH (source = 'samples/punctuations/drivers.xml');
