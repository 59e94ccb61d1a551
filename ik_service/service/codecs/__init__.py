"""Encodings of documents: JSON, MessagePack and archives of arrays, chosen by Content-Type and Accept.

bytes --decode--> document (columns are lists, arrays or packed columns) --documents/solve_request--> checked arrays
arrays --documents/solve_answer--> document (columns are arrays) --encode--> bytes
"""
